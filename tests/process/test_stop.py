"""SIGTERM and SIGINT end the daemon cleanly in every state; a second one ends it at once (issue: signals and exits)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.process.kit import (
    Daemons,
    Process,
    at_once,
    chunk_files,
    eventually,
    execute,
    hold,
    lease_rows,
    locked,
    node_ids,
    queued,
    seed,
)

IN_TIME_S = 3.0  # a stop that waits for nobody; the rest is for a busy machine
SIGNALS = [signal.SIGTERM, signal.SIGINT]


def idle(daemons: Daemons, state: Path) -> Process:
    daemon = daemons.leading(state)
    eventually(lambda: node_ids(state) == ["one"], 5)
    return daemon


def just_started(daemons: Daemons, state: Path) -> Process:
    daemon = daemons.run(state)
    eventually((state / "strata.db").exists, 5, every_s=0.001)
    return daemon


def waiting_for_a_row(daemons: Daemons, state: Path) -> Process:
    hold(state, "gc-leader-0", 60)
    daemon = daemons.run(state)
    daemon.wait_said("daemon started")
    eventually(lambda: node_ids(state) == ["one"], 5)
    assert not daemon.said("leader acquired")
    return daemon


def waiting_for_another_process(daemons: Daemons, state: Path) -> Process:
    daemons.leading(state, NODE_ID="another")
    daemon = daemons.run(state)
    daemon.wait_said("daemon started")
    eventually(lambda: node_ids(state) == ["another", "one"], 5)
    assert not daemon.said("leader acquired")
    return daemon


def working(daemons: Daemons, state: Path) -> Process:
    seed(state, 5000, files=False)
    daemon = daemons.leading(state, GC_BATCH_SIZE="10")
    eventually(lambda: len(queued(state)) < 5000, 5)
    return daemon


def unanswered(daemons: Daemons, state: Path) -> Process:
    """No ack can be written: each pass fails, and is repeated under the same lease."""
    seed(state, 1)
    refused = "CREATE TRIGGER refused BEFORE DELETE ON gc_entries BEGIN SELECT RAISE(ABORT, 'refused'); END"
    execute(state / "strata.db", refused)
    daemon = daemons.run(state)
    daemon.wait_said("pass failed")
    return daemon


def backing_off(daemons: Daemons, state: Path) -> Process:
    """The same after half a minute: it counts as a crash then, and the lease is given back for a while."""
    daemon = unanswered(daemons, state)
    eventually(lambda: daemon.said("shard backing off"), 45)
    return daemon


STATES = [just_started, idle, waiting_for_a_row, waiting_for_another_process, working, unanswered, backing_off]


@pytest.mark.parametrize("begin", STATES, ids=lambda begin: begin.__name__)
def test_one_signal_ends_it_cleanly(
    begin: Callable[[Daemons, Path], Process], daemons: Daemons, fast_folder: Path
) -> None:
    def check(number: signal.Signals) -> None:
        state = fast_folder / number.name
        daemon = begin(daemons, state)
        daemon.stop(number, IN_TIME_S)
        assert "one" not in node_ids(state)
        assert not [holder for _, holder in lease_rows(state) if holder.startswith("one/")]
        assert daemon.lines()[-1]["msg"] == "daemon stopped"

    at_once(*(partial(check, number) for number in SIGNALS))


def test_what_was_worked_on_at_the_stop_is_whole(daemons: Daemons, state: Path) -> None:
    seed(state, 3000)
    daemon = daemons.leading(state, GC_BATCH_SIZE="10")
    eventually(lambda: len(queued(state)) < 3000, 5)
    daemon.stop()
    left = queued(state)
    assert 0 < len(left) < 3000
    assert {path.name for path in chunk_files(state)} == set(left)


def test_metadata_that_somebody_else_locks_holds_the_stop_for_a_bounded_time(daemons: Daemons, state: Path) -> None:
    """The row of the node is left to its TTL then; two tries to write it take two seconds each."""
    daemon = idle(daemons, state)
    with locked(state / "strata.db"):
        daemon.stop(within_s=4.0 + IN_TIME_S)
    assert not lease_rows(state)


def test_leases_that_somebody_else_locks_hold_the_stop_no_longer_than_its_wait(daemons: Daemons, state: Path) -> None:
    daemon = daemons.leading(state, SHUTDOWN_WAIT="1s")
    eventually(lambda: node_ids(state) == ["one"], 5)
    with locked(state / "leases.db"):
        daemon.stop(within_s=1.0 + IN_TIME_S)
    assert not node_ids(state)
    assert daemon.said("leader release error")[-1]["error"] == "no answer, left to the TTL"
    assert [holder[:4] for _, holder in lease_rows(state)] == ["one/"]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_second_signal_leaves_at_once_with_code_4(number: signal.Signals, daemons: Daemons, state: Path) -> None:
    daemon = idle(daemons, state)
    with locked(state / "leases.db"):
        daemon.send(signal.SIGTERM)
        daemon.wait_said("daemon stopping")
        daemon.send(number)
        assert daemon.end(1.0) == 4, daemon.tail()
    assert daemon.stderr() == ""
    assert [holder[:4] for _, holder in lease_rows(state)] == ["one/"], "left to its TTL"


def test_signal_at_any_moment_ends_it_without_a_traceback(daemons: Daemons, fast_folder: Path) -> None:
    seed = int(os.environ.get("STRATA_TEST_SEED") or random.randrange(2**32))
    print(f"STRATA_TEST_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(13):
        delays_s = [chance.uniform(0, 1.0) for _ in range(2)]
        started = [daemons.run(fast_folder / name, NODE_ID=name) for name in ("one", "two")]
        for delay_s, daemon in sorted(zip(delays_s, started, strict=True), key=lambda pair: pair[0]):
            time.sleep(max(0.0, daemon.started_at + delay_s - time.monotonic()))
            daemon.send(signal.SIGTERM)
        for delay_s, daemon in zip(delays_s, started, strict=True):
            check_end(daemon, f"SIGTERM after {delay_s:.3f} s")
    for file in fast_folder.glob("*/leases.db"):
        assert not lease_rows(file.parent)
        assert not node_ids(file.parent)


def check_end(daemon: Process, when: str) -> None:
    code = daemon.end(IN_TIME_S)
    # Until the settings are read nobody catches the signal, and nothing has been said or begun.
    is_early = not daemon.stdout()
    assert code == 0 or (is_early and code == -signal.SIGTERM), f"{when}: {daemon.tail()}"
    assert daemon.stderr() == "", when
    assert not [line for line in daemon.lines() if line["level"] == "error"], f"{when}: {daemon.tail()}"
