"""Daemons that share one state folder: one leads, and another takes over, however the first one ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.process.kit import Daemons, Process, chunk_files, eventually, lease_rows, node_ids, queued, seed, status

TTL_S, RENEW_S = 3.0, 1.0


@dataclass(frozen=True)
class Early:
    """Pairs that need some heartbeats to come to rest: started before the first test of this file, tried in the last
    ones."""

    shards: tuple[Process, Process]
    shards_state: Path
    twins: tuple[Process, Process]
    twins_state: Path


@pytest.fixture(scope="module", autouse=True)
def early(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Early]:
    folder = tmp_path_factory.mktemp("early")
    daemons = Daemons(folder)
    try:
        yield start_early(daemons, folder / "shards", folder / "twins")
    finally:
        daemons.kill_all()


def start_early(daemons: Daemons, shards: Path, twins: Path) -> Early:
    first = daemons.run(shards, GC_SHARDS="4")
    twin = daemons.run(twins, DAEMON_LISTEN="127.0.0.1:0")
    first.wait_said("leader acquired", 4)
    twin.wait_said("leader acquired")
    eventually(lambda: node_ids(twins) == ["one"], 5)
    second = daemons.run(shards, GC_SHARDS="4", NODE_ID="two")
    return Early((first, second), shards, (twin, daemons.run(twins, DAEMON_LISTEN="127.0.0.1:0")), twins)


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
    seed(state, 20)
    eventually(lambda: not chunk_files(state), 5)
    standby.stop()
    assert deleted(leader, standby) == 20


def test_leader_that_stood_still_past_its_lease_does_nothing_when_it_wakes(daemons: Daemons, state: Path) -> None:
    """faults.md 1: SIGSTOP in the middle of a backlog; each chunk is deleted once, by one of both."""
    seed(state, 2000)
    leader = daemons.leading(state, GC_BATCH_SIZE="5")
    standby = daemons.run(state, NODE_ID="two", GC_BATCH_SIZE="500")
    standby.wait_said("daemon started")
    eventually(lambda: len(queued(state)) < 1990, 5)
    leader.send(signal.SIGSTOP)
    standby.wait_said("leader acquired", within_s=TTL_S + 2)
    eventually(lambda: not queued(state), 10)
    seed(state, 10)
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


def test_two_with_one_node_id_are_said_loudly_and_both_stay_visible(early: Early) -> None:
    """faults.md 7."""
    (first, second), state = early.twins, early.twins_state
    eventually(lambda: node_ids(state) == ["one", "one-2"], 15)
    (told,) = second.wait_said("node id is used twice")
    assert told["level"] == "error" and told["node"] == "one"
    assert second.said("node id changed")[0]["node"] == "one-2"

    def both() -> bool:
        seen = status(state)["nodes"]
        assert [node["node"] for node in seen] == ["one", "one-2"], seen
        return [node["leader_for"] for node in seen] == [["gc"], []]

    eventually(both, 8)
    first.stop()
    second.wait_said("leader acquired", within_s=2)
    second.stop()
    assert node_ids(state) == []


def test_shards_are_shared_and_those_of_a_killed_daemon_are_taken_within_a_ttl_and_a_second(early: Early) -> None:
    (first, second), state = early.shards, early.shards_state
    second.wait_said("leader acquired", 2, within_s=20)
    eventually(lambda: sorted(holder[:4] for _, holder in lease_rows(state)) == ["one/", "one/", "two/", "two/"], 3)
    seed(state, 40)
    eventually(lambda: not chunk_files(state), 5)
    eventually(lambda: deleted(first, second) == 40, 1)
    assert deleted(first) and deleted(second)
    first.kill()
    killed_at = time.monotonic()
    second.wait_said("leader acquired", 4, within_s=TTL_S + 1)
    assert time.monotonic() - killed_at > TTL_S - RENEW_S - 0.5, "taken before it could have run out"
    second.stop()
    assert lease_rows(state) == []
