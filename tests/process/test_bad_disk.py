"""A data folder that goes away, a disk that is full, a mount that is read-only: said, survived, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.process.kit import (
    FAST,
    PRODUCT,
    REGION,
    Daemons,
    chunk_files,
    command,
    environment,
    eventually,
    execute,
    queued,
    rows,
    seed,
    set_aside,
    status,
)


@pytest.mark.parametrize("how", ["moved away", "emptied"])
def test_data_folder_that_goes_in_mid_run_keeps_its_entries(how: str, daemons: Daemons, state: Path) -> None:
    """faults.md 59: what cannot be reached is not absent. Put back, it is collected at the next try."""
    daemon = daemons.leading(state, GC_GRACE="1500ms")
    seed(state, 30)
    data, away = state / "data", state / "away"
    data.rename(away)
    if how == "emptied":
        (data / "default" / "chunks").mkdir(parents=True)  # as a disk that is not mounted leaves its mount point
    eventually(lambda: len(set_aside(state)) == 30, 5)
    assert status(state)["queue"] == {
        "region": REGION,
        "entries": 0,
        "is_at_least": False,
        "counted_age_s": None,
        "oldest_age_s": None,
        "set_aside": {"unavailable": 30},
    }
    told = daemon.said("gc entries set aside")
    assert {line["level"] for line in told} == {"warn"} and str(data / "default") in told[0]["error"]
    assert len(list(away.glob("default/chunks/*/*"))) == 30
    shutil.rmtree(data, ignore_errors=True)
    away.rename(data)
    execute(state / "strata.db", "UPDATE gc_set_aside SET retry_at = 0")  # a minute, otherwise
    eventually(lambda: not set_aside(state) and not chunk_files(state), 5)
    assert queued(state) == []
    daemon.stop()


@pytest.fixture
def disk(tmp_path: Path, daemons: Daemons) -> Path:
    """A disk of 1 MiB, mounted where only a process of the test sees it; its path from here."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
        pytest.skip("a disk of its own needs the right to mount")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    script = f"mount -t tmpfs -o size=1m tmpfs {mounted} && touch {mounted}/ready && exec sleep 600"
    keeper = daemons.start(["unshare", "-m", "sh", "-c", script], dict(os.environ))
    seen = Path(f"/proc/{keeper.popen.pid}/root{mounted}")
    eventually((seen / "ready").exists, 5)
    return seen


def inside(disk: Path) -> list[str]:
    """What makes a command see the disk at its place."""
    return ["nsenter", f"--mount=/proc/{disk.parts[2]}/ns/mnt", "--"]


def place(disk: Path) -> Path:
    """The state folder on the disk, as a command inside sees it."""
    return Path("/", *disk.parts[4:]) / "state"


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def test_full_disk_refuses_a_put_and_a_start_and_loses_nothing(disk: Path, tmp_path: Path) -> None:
    state, seen = place(disk), disk / "state"
    body = tmp_path / "body"
    body.write_bytes(bytes(600_000))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command(state, *arguments, prefix=inside(disk), GC_GRACE="1ms")

    assert run("lab", "put", "b", str(body)).returncode == 0
    other = tmp_path / "other"
    other.write_bytes(bytes(600_000))
    no_room = run("lab", "put", "b", str(other))
    fill(disk)
    for full in (no_room, run("run"), run("status")):
        assert full.returncode == 3, full
        assert full.stdout == "" and full.stderr.count("\n") == 1, full
        assert "full" in full.stderr or "No space left" in full.stderr, full
    (disk / "filler").unlink()
    assert run("run", "--once").returncode == 0
    assert [path.stat().st_size for path in chunk_files(seen)] == [600_000]
    assert run("lab", "get", "b", "body").stdout == "\0" * 600_000
    shutil.copytree(seen, tmp_path / "copy")  # SQLite opens no file of another mount namespace
    assert (queued(tmp_path / "copy"), set_aside(tmp_path / "copy")) == ([], {})
    assert rows(tmp_path / "copy" / "strata.db", "SELECT count(*) FROM intents") == [(0,)]


def test_disk_that_fills_in_mid_run_ends_no_daemon_and_gc_goes_on_afterwards(disk: Path, daemons: Daemons) -> None:
    state = place(disk)
    environ = environment(state, **{**FAST, "GC_GRACE": "2s"})
    daemon = daemons.start([*inside(disk), *PRODUCT, "run"], environ)
    daemon.wait_said("leader acquired")
    assert command(state, "lab", "seed-gc", "--count", "20", "--size", "1", prefix=inside(disk)).returncode == 0
    fill(disk)
    eventually(lambda: daemon.said("heartbeat failed") or daemon.said("leader lease lost"), 10)
    assert daemon.popen.poll() is None
    (disk / "filler").unlink()
    eventually(lambda: not chunk_files(disk / "state"), 10)
    daemon.stop()
    told = json.loads(command(state, "status", "--json", prefix=inside(disk)).stdout)
    assert (told["queue"]["entries"], told["queue"]["set_aside"], told["leases"]) == (0, {}, [])


def test_read_only_mount_is_refused(disk: Path) -> None:
    state = place(disk)
    for action in ("", "ro"):
        if action:
            remount = ["mount", "-o", "remount,ro", str(state.parent)]
            assert subprocess.run([*inside(disk), *remount], check=False).returncode == 0
        done = command(state, "lab", "seed-gc", "--count", "3", "--no-files", prefix=inside(disk))
    assert done.returncode == 3 and "STRATA_STATE_DIR" in done.stderr, done
    done = command(state, "run", prefix=inside(disk))
    assert (done.returncode, done.stdout) == (3, ""), done
    assert "Traceback" not in done.stderr and str(state) in done.stderr
    assert json.loads(command(state, "status", "--json", prefix=inside(disk)).stdout)["queue"]["entries"] == 3
