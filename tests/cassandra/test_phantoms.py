"""Requests that lie unread in a coordinator that stands still, and are executed when it wakes, long after everybody has
given them up (cassandra-facts.md I.0.1): neither an INSERT nor a DELETE of a term that is over does any harm.
"""

from __future__ import annotations

import time

from tests.cassandra.kit.election import Candidate, Elections
from tests.cassandra.kit.proxy import Act, Proxy
from tests.process.kit import eventually
from tests.rings import LiveRing

LEASE = "gc-leader-0"
TTL_S, RENEW_S = 30, 3.0
SOON_S = 6.0  # far from a TTL
PHANTOM_S = 3.0


def _coordinator(elections: Elections, ring: LiveRing) -> int:
    """The node that is asked first for the lease."""
    return ring.hosts.index(elections.keyspaces.client.replicas(elections.keyspaces.strata, LEASE)[0]) + 1


def _left_behind(candidate: Candidate, ring: LiveRing, number: int) -> str:
    """A term under whose INSERT the coordinator stood still, and which is over; its holder."""
    unknown = candidate.unknown("insert")
    ring.pause(number)
    handle = candidate.acquire(LEASE, within_s=10.0)
    assert candidate.unknown("insert") > unknown, "the coordinator that stands still was not asked"
    assert candidate.release(handle)
    return handle.view().holder


def _appears(elections: Elections, candidate: Candidate, holder: str) -> bool:
    """Whether the row is written anew; its process may have learnt that before us, by the late answer."""
    ends_at = time.monotonic() + PHANTOM_S
    while elections.keyspaces.holder(LEASE) != holder and not candidate.orphans():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.1)
    return True


def test_an_insert_that_a_coordinator_finds_when_it_wakes_is_deleted_and_nobody_waits_for_its_ttl(
    elections: Elections, whole_ring: LiveRing
) -> None:
    keyspaces = elections.keyspaces
    number = _coordinator(elections, whole_ring)
    for turn in range(6):  # about every fifth time the node gives the request up when it wakes
        candidate = elections.candidate(f"node-{turn}", ttl_s=TTL_S, renew_s=RENEW_S)
        holder = _left_behind(candidate, whole_ring, number)
        assert keyspaces.holder(LEASE) is None
        whole_ring.resume(number)
        if _appears(elections, candidate, holder):
            break
    else:
        raise AssertionError("no coordinator executed what it found")
    again = candidate.acquire(LEASE, within_s=SOON_S)
    assert again.view().holder != holder
    assert candidate.orphans() >= 1.0


def test_a_delete_that_a_coordinator_finds_when_it_wakes_ends_no_later_term(
    elections: Elections, whole_ring: LiveRing, proxy: Proxy
) -> None:
    """With a holder that is used twice it ended the later lease in 20 of 20 cases: two leaders."""
    keyspaces = elections.keyspaces
    candidate = elections.candidate("node-a", proxy.hosts, ttl_s=TTL_S, renew_s=RENEW_S)
    number = _coordinator(elections, whole_ring)
    handle = candidate.acquire(LEASE, within_s=4.0)
    whole_ring.pause(number)
    assert candidate.release(handle)
    late = proxy.seen("release")[0]
    assert late.number == number, "the coordinator that stands still was not asked"
    later = candidate.acquire(LEASE, within_s=SOON_S)
    whole_ring.resume(number)
    _wait_answers(whole_ring, number)
    time.sleep(1.0)
    assert keyspaces.holder(LEASE) == later.view().holder
    candidate.wait_renewed(later, candidate.runtime.now(), within_s=2 * RENEW_S)
    assert not later.lost.is_set()


def test_an_insert_that_comes_late_while_its_own_process_leads_changes_nothing(
    elections: Elections, proxy: Proxy
) -> None:
    """The same by the proxy, which holds a whole attempt, so that the process leads under another holder by then."""
    keyspaces = elections.keyspaces
    candidate = elections.candidate("node-a", proxy.hosts)
    held = proxy.fault(Act.HOLD, "acquire", count=3)
    handle = candidate.acquire(LEASE, within_s=20.0)
    assert len(held.hit) == 3 and handle.view().holder not in {request.text(1) for request in held.hit}
    proxy.lift(held)
    candidate.wait_renewed(handle, candidate.runtime.now(), within_s=5.0)
    assert keyspaces.holder(LEASE) == handle.view().holder


def test_a_whole_attempt_that_comes_late_to_a_free_lease_is_deleted_by_its_process(
    elections: Elections, proxy: Proxy
) -> None:
    """Its holder never had a term, and is remembered all the same (design.md section 4, V2)."""
    keyspaces = elections.keyspaces
    candidate = elections.candidate("node-a", proxy.hosts)
    held = proxy.fault(Act.HOLD, "acquire", count=3)
    handle = candidate.acquire(LEASE, within_s=20.0)
    assert candidate.release(handle)
    proxy.lift(held)
    phantom = held.hit[0].text(1)
    eventually(lambda: keyspaces.holder(LEASE) == phantom, 5.0)
    candidate.acquire(LEASE, within_s=SOON_S)
    assert candidate.orphans() >= 1.0


def _wait_answers(ring: LiveRing, number: int) -> None:
    """Until a node that stood still does its work again: it reads what came first before what comes now."""
    eventually(lambda: ring.launched.status()[number - 1].sees == len(ring.hosts), 20.0, every_s=0.2)
