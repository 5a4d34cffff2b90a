"""The Cassandra rings of a test session: started when a test first asks, ended with the session.

A ring of ours lives in `build/test-rings/<pid>`; what a killed session left there is ended by the next one. Else it is
one that somebody named: STRATA_TEST_CASSANDRA=host,host,host is a ring that the tests may only use, so those that
break nodes fail; STRATA_TEST_RING_DIR is the folder of a ring of scripts/cassandra, which they may also break.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from ring import Ring, RingError  # noqa: E402
from ring.room import free_base  # noqa: E402

DATA_CENTRE = os.environ.get("STRATA_TEST_CASSANDRA_DC", "datacenter1")  # of a ring that somebody named
FOLDERS = ROOT / "build" / "test-rings"
CQL_PORT, STORAGE_PORT = 9042, 7000
# Loopback addresses that a user's own ring, on 127.0.0.1 and up, does not need.
BASES = tuple(f"127.0.{third}.1" for third in range(5, 60))
NO_RING = "STRATA_TEST_NO_RING"
JARS = "STRATA_TEST_RING_JARS"
HOSTS = "STRATA_TEST_CASSANDRA"
FOLDER = "STRATA_TEST_RING_DIR"


class NoRing(AssertionError):
    """A test needs a ring, and there is none."""


class LiveRing:
    """A ring that runs. Nodes count from 1. `_ring` None: it is somebody's, and its nodes are left alone."""

    def __init__(self, hosts: list[str], port: int, ring: Ring | None) -> None:
        self.hosts = hosts
        self.port = port
        self._ring = ring

    @property
    def contact_points(self) -> str:
        return ",".join(f"{host}:{self.port}" for host in self.hosts)

    @property
    def launched(self) -> Ring:
        """The ring as its launcher sees it."""
        if self._ring is None:
            raise AssertionError(
                f"this test stops or ends nodes, which it may not do to the ring of {HOSTS}: leave that out, so that"
                f" the tests start a ring of their own, or name the folder of a ring by {FOLDER}."
            )
        return self._ring

    def pause(self, number: int) -> None:
        self.launched.pause(number)

    def resume(self, number: int) -> None:
        self.launched.resume(number)

    def kill(self, number: int) -> None:
        self.launched.kill(number)

    def restart(self, number: int, *, wait: bool = True) -> None:
        self.launched.restart(number, wait=wait)

    def wait(self) -> None:
        """Until every node that runs sees all that run."""
        self.launched.wait()

    def mend(self) -> None:
        """Wake and start whatever a test left broken, and wait until all nodes see each other."""
        ring = self._ring
        if ring is None:
            return
        for node in ring.status():
            if node.fate.name == "PAUSED":
                ring.resume(node.number)
        ring.up()
        ring.wait()


def find(say: Callable[[str], None]) -> tuple[LiveRing, Callable[[], None]]:
    """The ring of three for this session, and what ends it. Raises NoRing."""
    named, folder = os.environ.get(HOSTS), os.environ.get(FOLDER)
    if named:
        hosts = [host.strip().partition(":") for host in named.split(",") if host.strip()]
        return LiveRing([host for host, _, _ in hosts], int(hosts[0][2] or CQL_PORT), None), lambda: None
    if folder:
        ring = _open(Path(folder), say)
        if not ring.exists:
            raise NoRing(
                f"there is no ring in {folder} ({FOLDER}): `scripts/cassandra up --folder {folder}` makes one."
            )
        ring.up()
        return LiveRing(ring.hosts, ring.port, ring), lambda: None
    ring, stop = launch("three", say, nodes=3)
    return LiveRing(ring.hosts, ring.port, ring), stop


def launch(name: str, say: Callable[[str], None], **options: Any) -> tuple[Ring, Callable[[], None]]:
    """Start a ring of this session; the ring and what ends it. Raises NoRing when that cannot be."""
    end_what_was_left(say)
    ring = _open(FOLDERS / str(os.getpid()) / name, say)

    def stop() -> None:
        _end(ring)

    try:
        ring.up(base_ip=free_base(BASES, options["nodes"], (CQL_PORT, STORAGE_PORT)), **options)
    except RingError as exc:
        stop()
        raise NoRing(
            f"no Cassandra ring for the tests: {exc} To run the tests that need none, set {NO_RING}=1."
        ) from exc
    except BaseException:
        stop()
        raise
    return ring, stop


def end_what_was_left(say: Callable[[str], None]) -> None:
    """End the rings of sessions that were killed: their folder bears the pid of a process that is gone."""
    for folder in FOLDERS.glob("*/*"):
        session = folder.parent.name
        if session.isdigit() and not Path(f"/proc/{session}").exists():
            say(f"ending the ring that a killed test run left in {folder}")
            _end(_open(folder, say))


def _end(ring: Ring) -> None:
    """End it and leave nothing of it; the folder of its session goes with its last ring."""
    if ring.exists:
        ring.stop(wipe=True)
    shutil.rmtree(ring.folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        ring.folder.parent.rmdir()


def _open(folder: Path, say: Callable[[str], None]) -> Ring:
    return Ring.open(folder, jars=os.environ.get(JARS), say=say)
