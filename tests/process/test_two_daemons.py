"""Daemons that share one state folder: one leads, and another takes over, however the first one ended."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.process.kit import Daemons, Process, chunk_files, eventually, lab, lease_rows, node_ids, queued, status

TTL_S, STOP_BUDGET_S = 3.0, 0.5


def pair(daemons: Daemons, state: Path) -> tuple[Process, Process]:
    """A leader `one`, and `two` that waits."""
    leader = daemons.leading(state)
    standby = daemons.run(state, NODE_ID="two")
    standby.wait_said("daemon started")
    eventually(lambda: node_ids(state) == ["one", "two"], 5)
    assert not standby.said("leader acquired")
    return leader, standby


def deleted(*daemons: Process) -> int:
    """Chunks that these daemons say to have deleted, each pass being a line."""
    return sum(line["deleted"] for daemon in daemons for line in daemon.said("gc pass finished"))


def test_clean_stop_hands_the_lease_over_at_once(daemons: Daemons, state: Path) -> None:
    leader, standby = pair(daemons, state)
    leader.stop()
    (taken,) = standby.wait_said("leader acquired", within_s=1)
    assert taken["token"] > leader.said("leader acquired")[0]["token"]
    lab(state, "seed-gc", "--count", "20", "--size", "1")
    eventually(lambda: not chunk_files(state), 5)
    standby.stop()
    assert deleted(leader, standby) == 20


def test_killed_leader_is_followed_within_a_ttl_and_a_second(daemons: Daemons, state: Path) -> None:
    leader, standby = pair(daemons, state)
    leader.kill()
    killed_at = time.monotonic()
    standby.wait_said("leader acquired", within_s=TTL_S + 1)
    assert time.monotonic() - killed_at > TTL_S - 1 - STOP_BUDGET_S - 0.5, "taken before it could have run out"
    assert [holder[:4] for _, holder in lease_rows(state)] == ["two/"]
    standby.stop()


def test_leader_that_stood_still_past_its_lease_does_nothing_when_it_wakes(daemons: Daemons, state: Path) -> None:
    """faults.md 1: SIGSTOP in the middle of a backlog; each chunk is deleted once, by one of both."""
    lab(state, "seed-gc", "--count", "2000", "--size", "1")
    leader = daemons.leading(state, GC_BATCH_SIZE="5")
    standby = daemons.run(state, NODE_ID="two", GC_BATCH_SIZE="500")
    standby.wait_said("daemon started")
    eventually(lambda: len(queued(state)) < 1990, 5)
    leader.send(signal.SIGSTOP)
    standby.wait_said("leader acquired", within_s=TTL_S + 2)
    eventually(lambda: not queued(state), 10)
    lab(state, "seed-gc", "--count", "10", "--size", "1")
    leader.send(signal.SIGCONT)
    (lost,) = leader.wait_said("leader lease lost", within_s=3)
    assert lost["holder"].startswith("one/")
    eventually(lambda: not chunk_files(state), 5)
    standby.stop()
    leader.wait_said("leader acquired", 2, within_s=3)
    leader.stop()
    first, second = (line["token"] for line in leader.said("leader acquired"))
    assert first < standby.said("leader acquired")[0]["token"] < second
    assert deleted(leader, standby) == 2010
    # What was unlinked but not yet acked when it was stopped is found absent by the other.
    assert sum(line["absent"] for line in standby.said("gc pass finished")) <= 5
    assert not [line for line in leader.lines() + standby.lines() if line["level"] == "error"]


def test_two_with_one_node_id_are_said_loudly_and_both_stay_visible(daemons: Daemons, state: Path) -> None:
    """faults.md 7."""
    first = daemons.leading(state, DAEMON_LISTEN="127.0.0.1:0")
    eventually(lambda: node_ids(state) == ["one"], 5)
    second = daemons.run(state, DAEMON_LISTEN="127.0.0.1:0")
    eventually(lambda: node_ids(state) == ["one", "one-2"], 15)
    (told,) = second.wait_said("node id is used twice")
    assert told["level"] == "error" and told["node"] == "one"
    assert second.said("node id changed")[0]["node"] == "one-2"

    def both() -> bool:
        seen = status(state)["nodes"]
        assert [node["node"] for node in seen] == ["one", "one-2"], seen
        return seen[0]["leader_for"] == ["gc"] and seen[1]["leader_for"] == []

    eventually(both, 8)
    first.stop()
    second.wait_said("leader acquired", within_s=2)
    second.stop()
    assert node_ids(state) == []


def test_four_shards_are_shared_fairly_and_taken_over(daemons: Daemons, state: Path) -> None:
    first = daemons.run(state, GC_SHARDS="4")
    first.wait_said("leader acquired", 4)
    second = daemons.run(state, GC_SHARDS="4", NODE_ID="two")
    second.wait_said("leader acquired", 2, within_s=20)
    eventually(lambda: sorted(holder[:4] for _, holder in lease_rows(state)) == ["one/", "one/", "two/", "two/"], 3)
    lab(state, "seed-gc", "--count", "40", "--size", "1")
    eventually(lambda: not chunk_files(state), 5)
    first.stop()
    second.wait_said("leader acquired", 4, within_s=2)
    second.stop()
    assert deleted(first, second) == 40
    assert lease_rows(state) == []
