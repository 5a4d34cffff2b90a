"""The command as a real subprocess: started, read by its log lines, looked at from outside, ended whatever happens.

What the state folder holds is read with `sqlite3` and the file system alone, so that a mistake of the product's readers
hides nothing. Every wait is `eventually`, or the end of a process in bounded time.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.cli import seed as fill
from strata_daemon.leader.store import Insert, Reply
from strata_daemon.ports.stores import Stores
from strata_daemon.stores.opening import open_embedded
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore
from strata_daemon.workers import intents

ROOT = Path(__file__).parents[2]
PRODUCT = (sys.executable, "-m", "strata_daemon")
LOOK_S = 0.02
T = TypeVar("T")

# The shortest lease that the settings let through on the embedded store, but for rounding.
FAST = {
    "LEASE_TTL": "3s",
    "LEASE_RENEW": "1s",
    "LEASE_STOP_BUDGET": "500ms",
    "LEASE_POLL": "1s",
    "GC_GRACE": "1ms",
    "GC_INTERVAL": "200ms",
}
REGION = "strata-local"


def eventually(claim: Callable[[], T], within_s: float, *, every_s: float = LOOK_S) -> T:
    """Ask `claim` until it answers with something true, and give that; fail with what it last said.

    A claim may also fail an assertion as long as it does not hold.
    """
    ends_at = time.monotonic() + within_s
    while True:
        try:
            seen: object = (answer := claim())
            if answer:
                return answer
        except AssertionError as exc:
            seen = exc
        if time.monotonic() > ends_at:
            raise AssertionError(f"not within {within_s:g} s; last seen: {seen}")
        time.sleep(every_s)


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Make these calls side by side: most of a process's time is its start, and there is more than one core."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def environment(state: Path, **settings: str) -> dict[str, str]:
    """Settings of a gc daemon with its state in `state`; keywords are STRATA_* names without their prefix."""
    chosen = {"WORKERS": "gc", "STATE_DIR": str(state), "DAEMON_LISTEN": "off", "NODE_ID": "one", **settings}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    return {**kept, "PYTHONPATH": str(ROOT)} | {f"STRATA_{name}": value for name, value in chosen.items()}


def command(
    state: Path, *arguments: str, prefix: Sequence[str] = (), **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `prefix` is a program that runs it."""
    return subprocess.run(
        [*prefix, *PRODUCT, *arguments],
        env=environment(state, **settings),
        capture_output=True,
        text=True,
        errors="backslashreplace",
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )


def lab(state: Path, *arguments: str, **settings: str) -> str:
    """Run `lab ...`, which must succeed; its stdout."""
    done = command(state, "lab", *arguments, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def status(state: Path, **settings: str) -> dict[str, Any]:
    """What `status --json` says."""
    done = command(state, "status", "--json", **settings)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


class Process:
    """A process in the background; its stdout and stderr go to files. Killed by the fixture that started it."""

    def __init__(self, arguments: Sequence[str], environ: dict[str, str], output: Path) -> None:
        self._out, self._err = output.with_suffix(".out"), output.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.popen = subprocess.Popen(
                arguments, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        self.started_at = time.monotonic()

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """The whole group: what the process itself started goes too."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(10)

    def end(self, within_s: float) -> int:
        """Wait for the end; the exit code, negative for a signal."""
        try:
            return self.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within_s:g} s; {self.tail()}") from None

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 5.0) -> None:
        """Ask for the stop, which must be clean."""
        self.send(number)
        assert self.end(within_s) == 0, self.tail()
        assert self.stderr() == ""

    def lines(self) -> list[dict[str, Any]]:
        """The log so far. Each whole line must be one JSON object with `time`, `level` and `msg`."""
        lines = []
        for text in self._out.read_bytes().decode().split("\n")[:-1]:
            line = json.loads(text)
            assert isinstance(line, dict) and line.keys() >= {"time", "level", "msg"}, text
            lines.append(line)
        return lines

    def said(self, msg: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["msg"] == msg]

    def wait_said(self, msg: str, count: int = 1, *, within_s: float = 10.0) -> list[dict[str, Any]]:
        """Wait until `count` lines bear this `msg`."""

        def claim() -> list[dict[str, Any]]:
            found = self.said(msg)
            assert len(found) >= count and self.is_fine(), f"{len(found)} x {msg!r}; {self.tail()}"
            return found

        return eventually(claim, within_s)

    def is_fine(self) -> bool:
        return self.popen.poll() in (None, 0)

    def stdout(self) -> str:
        return self._out.read_text(errors="backslashreplace")

    def stderr(self) -> str:
        return self._err.read_text(errors="backslashreplace")

    def tail(self) -> str:
        shown = f"code {self.popen.poll()}, stdout: {self.stdout()[-3000:]}"
        return f"{shown}\nstderr: {self.stderr()[-2000:]}"


class Daemons:
    """Starts daemons in one folder of a test, and kills what is left of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._started: list[Process] = []

    def run(self, state: Path, *arguments: str, **settings: str) -> Process:
        """Start `run` with the fast times, unless `settings` say otherwise."""
        return self.start([*PRODUCT, "run", *arguments], environment(state, **{**FAST, **settings}))

    def leading(self, state: Path, **settings: str) -> Process:
        """A daemon that holds the lease of its only shard."""
        daemon = self.run(state, **settings)
        daemon.wait_said("leader acquired")
        return daemon

    def start(self, arguments: Sequence[str], environ: dict[str, str]) -> Process:
        process = Process(arguments, environ, self._folder / f"process-{next(self._numbers)}")
        self._started.append(process)
        return process

    def kill_all(self) -> None:
        for process in self._started:
            process.kill()


# -- the state folder: filled without a process of its own, since that costs half a second


@contextmanager
def opened(state: Path) -> Iterator[Stores]:
    with open_embedded("sqlite", "dir", state, REGION, RealRuntime()) as stores:
        yield stores


def seed(state: Path, count: int, *, files: bool = True) -> None:
    """Queue chunks, each with a file of one byte unless `files` says otherwise."""
    with opened(state) as stores:
        if files:
            fill.seed_with_files(stores.meta, stores.data, stores.runtime, count, 1, lambda _: None)
        else:
            fill.seed_rows(stores.meta.gc_queue, stores.runtime, REGION, count, lambda _: None)


def put(state: Path, bucket: str, key: str, body: bytes) -> None:
    with opened(state) as stores:
        intents.put(stores.meta, stores.data, stores.runtime, bucket, key, body)


# -- the state folder, from outside


def rows(file: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows of a database, read by plain SQL; text that is not UTF-8 as the product reads it."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        return connection.execute(statement, values).fetchall()


def execute(file: Path, statement: str, values: Iterable[Sequence[object]] = ((),)) -> None:
    """Change a database behind the product's back, in one transaction."""
    with closing(sqlite3.connect(file, timeout=10)) as connection, connection:
        connection.executemany(statement, values)


def hold(state: Path, lease: str, ttl_s: int) -> None:
    """A lease of somebody who is not there, for so long."""
    state.mkdir(exist_ok=True)
    store = SqliteLeaseStore(state / "leases.db", RealRuntime())
    replies: list[Reply] = []
    store.submit([Insert(lease, "somebody/1/else", 1, ttl_s)], replies.extend)
    assert store.close(5.0) and replies


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Somebody else's exclusive transaction on a database."""
    with closing(sqlite3.connect(file, timeout=10, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def lease_rows(state: Path) -> list[tuple[str, str]]:
    """(lease, holder) of every row that has not been deleted."""
    return rows(state / "leases.db", "SELECT lease, holder FROM leases ORDER BY lease")


def node_ids(state: Path) -> list[str]:
    return [row[0] for row in rows(state / "strata.db", "SELECT node_id FROM nodes ORDER BY node_id")]


def queued(state: Path) -> list[str]:
    """The oids in the queue, without those that are set aside."""
    return [row[0] for row in rows(state / "strata.db", "SELECT oid FROM gc_entries ORDER BY oid")]


def set_aside(state: Path) -> dict[str, str]:
    """Reason by oid."""
    return dict(rows(state / "strata.db", "SELECT oid, reason FROM gc_set_aside"))


def chunk_files(state: Path) -> set[Path]:
    return {path for path in state.glob("data/*/chunks/*/*") if path.is_file()}
