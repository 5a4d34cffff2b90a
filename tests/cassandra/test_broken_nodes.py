"""Nodes of the ring that stand still, die and come back, under work, while the witness looks on.

No lease is lost while a majority is left, and when it is not, nobody works beyond its own deadline (faults.md 36, 41).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from strata_daemon.base.errors import StoreUnavailable
from tests.cassandra.kit.fleet import WORK_S, Fleet, Node
from tests.process.kit import eventually
from tests.rings import LiveRing

LEASE = "gc-leader-0"
SLOW_LEASE = {"LEASE_TTL": "30s", "LEASE_RENEW": "10s", "LEASE_STOP_BUDGET": "2s"}
FED_EACH_S = 0.5
# A write of the feed may take so long while nodes are away; what comes later than its grace waits for a sweep.
GRACE = {"GC_GRACE": "15s"}


class Feed:
    """Queues chunks all the time, in a thread of its own; what was queued for sure must be deleted in the end."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._stopping = threading.Event()
        self.queued: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="feed")
        self._thread.start()

    def _run(self) -> None:
        turn = 0
        while not self._stopping.wait(FED_EACH_S):
            try:
                self.queued |= {entry.oid for entry in self._fleet.feed(10, f"fed-{turn}")}
                turn += 1
            except StoreUnavailable:
                continue  # it may have been queued: the same entries again change nothing

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    def check(self) -> None:
        """No entry was lost."""
        self.close()
        assert self.queued
        eventually(lambda: self.queued <= self._fleet.deleted(), WORK_S, every_s=0.2)


@pytest.fixture
def feed(fleet: Fleet, whole_ring: LiveRing) -> Iterator[Feed]:
    """`whole_ring` first: what a test breaks is whole again before the daemons are stopped."""
    made = Feed(fleet)
    yield made
    made.close()


def _two(fleet: Fleet, **settings: str) -> Node:
    """Two daemons; the one that leads. A row alone may be that of an attempt, so its term is waited for."""
    for name in ("node-a", "node-b"):
        fleet.start(name, **GRACE, **settings)
    return eventually(lambda: next((node for node in fleet.nodes.values() if node.held()), None), 30.0)


def _one_term(fleet: Fleet, leader: Node) -> None:
    """Nobody else led, and the leader's first term goes on."""
    assert sum(node.terms() for node in fleet.nodes.values()) == leader.terms() == 1.0
    assert leader.held() == {LEASE}


def test_one_node_that_stands_still_or_is_killed_and_comes_back_costs_no_lease(
    fleet: Fleet, feed: Feed, whole_ring: LiveRing
) -> None:
    """TTL 10 with renewals each 2 s. The node is the one that coordinates the lease."""
    leader = _two(fleet)
    first = fleet.keyspaces.client.replicas(fleet.keyspaces.strata, LEASE)[0]
    number = whole_ring.hosts.index(first) + 1
    whole_ring.pause(number)
    time.sleep(10.0)
    whole_ring.resume(number)
    _one_term(fleet, leader)
    whole_ring.kill(number)
    time.sleep(2.0)
    whole_ring.restart(number)
    _one_term(fleet, leader)
    feed.check()


def _rolling_restart(fleet: Fleet, feed: Feed, ring: LiveRing, rounds: int) -> None:
    leader = _two(fleet, **SLOW_LEASE)
    for _ in range(rounds):
        for number in range(1, len(ring.hosts) + 1):
            ring.restart(number)
            _one_term(fleet, leader)
    feed.check()


def test_a_rolling_restart_under_load_costs_no_lease_and_no_entry(
    fleet: Fleet, feed: Feed, whole_ring: LiveRing
) -> None:
    """faults.md 36."""
    _rolling_restart(fleet, feed, whole_ring, 1)


@pytest.mark.long
@pytest.mark.timeout(900, func_only=True)
def test_three_rolling_restarts_under_load_cost_no_lease_and_no_entry(
    fleet: Fleet, feed: Feed, whole_ring: LiveRing
) -> None:
    """faults.md 36."""
    _rolling_restart(fleet, feed, whole_ring, 3)


@pytest.mark.long
@pytest.mark.timeout(900, func_only=True)
def test_two_nodes_that_stand_still_for_twelve_seconds_cost_no_lease_of_thirty(
    fleet: Fleet, feed: Feed, whole_ring: LiveRing
) -> None:
    """No renewal can succeed meanwhile; what is left of the validity bridges it. Five rounds, at any moment of a
    renewal cycle."""
    leader = _two(fleet, **SLOW_LEASE)
    for turn in range(5):
        _paused(whole_ring, (1 + turn % 3, 1 + (turn + 1) % 3), lambda: time.sleep(12.0))
        eventually(lambda: leader.held() == {LEASE}, 5.0)
        _one_term(fleet, leader)
        time.sleep(3.0 + 1.7 * turn)  # the nodes settle, and the next round comes at another moment
    feed.check()


@pytest.mark.long
def test_a_leader_without_a_majority_stops_by_its_deadline_and_somebody_leads_soon_after_it_is_back(
    fleet: Fleet, feed: Feed, whole_ring: LiveRing
) -> None:
    leader = _two(fleet)

    def out() -> None:
        eventually(lambda: not leader.held(), 10.0)  # TTL 10 less what is allowed for: 7 s after the last renewal
        time.sleep(20.0)
        assert not any(node.held() for node in fleet.nodes.values())
        assert not any(fleet.witness.inside.values()), "a runner is still inside"

    _paused(whole_ring, (1, 2), out)
    _wait_writable(fleet)
    writable_at = time.monotonic()
    eventually(lambda: any(node.held() for node in fleet.nodes.values()), 15.0)
    assert time.monotonic() - writable_at < 5.0
    assert leader.terms("deadline") == 1.0
    feed.check()


def _paused(ring: LiveRing, numbers: tuple[int, int], meanwhile: Callable[[], None]) -> None:
    for number in numbers:
        ring.pause(number)
    try:
        meanwhile()
    finally:
        for number in numbers:
            ring.resume(number)


def _wait_writable(fleet: Fleet) -> None:
    """Until a conditional write of somebody else's succeeds."""

    def claim() -> bool:
        try:
            return fleet.keyspaces.take("outside", "outside/1/probe", 1, timeout_s=2.0) or True
        except Exception as exc:  # the driver's errors have no common base
            raise AssertionError(str(exc)) from exc

    eventually(claim, 60.0, every_s=0.2)
