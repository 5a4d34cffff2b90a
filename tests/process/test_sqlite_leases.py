"""Two real processes on one `leases.db`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.leader.store import Answer, Insert, Outcome, Reply
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore

ROOT = Path(__file__).parents[2]
RIVAL = Path(__file__).with_name("sqlite_lease_rival.py")
ROUNDS = 200


def start(path: Path, name: str, rounds: int, what: str = "insert") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(RIVAL), str(path), name, str(rounds), what],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_ready(rival: subprocess.Popen[str]) -> None:
    assert rival.stdout is not None
    assert rival.stdout.readline() == "ready\n"


def race(path: Path, rounds: int, what: str) -> list[list[str]]:
    """What each of two processes printed; both create the file, at once."""
    rivals = [start(path, name, rounds, what) for name in ("one", "two")]
    for rival in rivals:
        wait_ready(rival)
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("\n")
        rival.stdin.flush()
    told = [rival.communicate(timeout=60)[0].splitlines() for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0]
    return told


def test_two_processes_that_draw_tokens_of_one_lease_never_share_one_nor_go_back(tmp_path: Path) -> None:
    one, two = ([int(line) for line in lines] for lines in race(tmp_path / "leases.db", 50, "draw"))
    assert one == sorted(one) and two == sorted(two)
    assert sorted(one + two) == list(range(1, 101))


def test_of_two_processes_that_race_for_a_lease_exactly_one_gets_it_each_time(tmp_path: Path) -> None:
    told = race(tmp_path / "leases.db", ROUNDS, "insert")
    winners: dict[str, list[str]] = defaultdict(list)
    losers: dict[str, list[str]] = defaultdict(list)
    for name, lines in zip(("one", "two"), told, strict=True):
        assert len(lines) == ROUNDS
        for lease, outcome, holder in (line.split() for line in lines):
            assert outcome in ("applied", "refused"), lines
            (winners if outcome == "applied" else losers)[lease].append(name if outcome == "applied" else holder)
    assert all(len(names) == 1 for names in winners.values())
    assert len(winners) == ROUNDS
    assert losers == winners, "a refusal named somebody else than the winner"


def test_a_killed_process_leaves_a_file_that_the_next_one_can_use(tmp_path: Path) -> None:
    path = tmp_path / "leases.db"
    rival = start(path, "killed", 1)
    wait_ready(rival)
    assert rival.stdin is not None and rival.stdout is not None
    rival.stdin.write("\n")
    rival.stdin.flush()
    assert rival.stdout.readline() == "lease-0 applied -\n"
    rival.send_signal(signal.SIGKILL)
    rival.communicate(timeout=10)
    runtime = RealRuntime()
    reader = SqliteLeaseStore(path, runtime, read_only=True)
    assert [each.holder for each in reader.list_leases()] == ["killed"]
    store = SqliteLeaseStore(path, runtime)
    replies: list[Reply] = []
    store.submit([Insert("lease-0", "next", 1, 60)], replies.extend)
    assert store.close(5.0)
    assert replies == [Answer(Insert("lease-0", "next", 1, 60), Outcome.REFUSED, "killed")]
