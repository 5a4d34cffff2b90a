"""`run --once`: one pass under each lease that is free or becomes free within the poll period, then the end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.process.kit import Daemons, Process, chunk_files, hold, lease_rows, node_ids, seed

END_S = 10.0


def leases(daemon: Process, msg: str) -> list[str]:
    return sorted(line["lease"] for line in daemon.said(msg))


def check_end(daemon: Process, state: Path, left: int) -> None:
    assert daemon.end(END_S) == 0, daemon.tail()
    assert daemon.stderr() == ""
    assert [holder for _, holder in lease_rows(state) if holder.startswith("one/")] == []
    assert node_ids(state) == []
    assert len(chunk_files(state)) == left


@pytest.mark.parametrize("shards", [1, 4])
def test_free_leases_get_one_pass_each(shards: int, daemons: Daemons, state: Path) -> None:
    seed(state, 40)
    daemon = daemons.run(state, "--once", GC_SHARDS=str(shards))
    check_end(daemon, state, left=0)
    every = [f"gc-leader-{shard}" for shard in range(shards)]
    assert leases(daemon, "leader acquired") == leases(daemon, "leader released") == every
    assert not daemon.said("lease not obtained")
    assert sum(line["deleted"] for line in daemon.said("gc pass finished")) == 40


@pytest.mark.parametrize("shards", [1, 4])
def test_nothing_to_do_is_a_clean_end_too(shards: int, daemons: Daemons, state: Path) -> None:
    daemon = daemons.run(state, "--once", GC_SHARDS=str(shards), LEASE_POLL="5s")
    check_end(daemon, state, left=0)
    assert time.monotonic() - daemon.started_at < 4, "it waited for the poll period though every lease was free"


def test_held_lease_is_said_and_its_work_left(daemons: Daemons, state: Path) -> None:
    seed(state, 10)
    hold(state, "gc-leader-0", 60)
    daemon = daemons.run(state, "--once")
    check_end(daemon, state, left=10)
    assert leases(daemon, "lease not obtained") == ["gc-leader-0"]
    assert not daemon.said("leader acquired")
    assert lease_rows(state) == [("gc-leader-0", "somebody/1/else")]


def test_one_shard_of_four_that_is_held_is_said_and_the_others_are_worked_on(daemons: Daemons, state: Path) -> None:
    seed(state, 400)
    hold(state, "gc-leader-2", 60)
    daemon = daemons.run(state, "--once", GC_SHARDS="4")
    assert daemon.end(END_S) == 0, daemon.tail()
    assert leases(daemon, "lease not obtained") == ["gc-leader-2"]
    assert leases(daemon, "leader acquired") == ["gc-leader-0", "gc-leader-1", "gc-leader-3"]
    left = {int(path.parent.name, 16) % 4 for path in chunk_files(state)}
    assert left == {2}


@pytest.mark.parametrize("shards", [1, 4])
def test_lease_that_becomes_free_within_the_poll_period_is_taken(shards: int, daemons: Daemons, state: Path) -> None:
    seed(state, 40)
    hold(state, "gc-leader-0", 2)
    daemon = daemons.run(state, "--once", GC_SHARDS=str(shards), LEASE_POLL="4s")
    check_end(daemon, state, left=0)
    assert "gc-leader-0" in leases(daemon, "leader acquired")
    assert not daemon.said("lease not obtained")


def test_signal_ends_it_before_its_time(daemons: Daemons, state: Path) -> None:
    hold(state, "gc-leader-0", 60)
    daemon = daemons.run(state, "--once", LEASE_POLL="30s")
    daemon.wait_said("daemon started")
    daemon.stop(within_s=2)
