"""Which node coordinates a request, on a ring; the rules of it by themselves are among the unit tests."""

from __future__ import annotations

from tests.cassandra.kit.election import Elections
from tests.cassandra.kit.proxy import Act, Proxy
from tests.process.kit import eventually
from tests.rings import LiveRing

LEASES = tuple(f"gc-leader-{i}" for i in range(6))


def test_all_conditional_statements_of_a_lease_meet_at_its_first_replica(
    elections: Elections, proxy: Proxy, ring: LiveRing
) -> None:
    """There they queue; through different nodes they fight (cassandra-facts.md I.0.7)."""
    keyspaces = elections.keyspaces
    candidate = elections.candidate("node-a", proxy.hosts)
    for lease in LEASES:
        assert candidate.release(candidate.acquire(lease, within_s=4.0))
        first = ring.hosts.index(keyspaces.client.replicas(keyspaces.strata, lease)[0]) + 1
        asked = [
            request for request in proxy.seen("acquire", "renew", "release") if lease.encode() in request.asked.values
        ]
        assert {request.number for request in asked} == {first}
    assert len({request.number for request in proxy.seen("acquire")}) > 1, "all leases on one node"


def test_a_node_that_did_not_answer_is_passed_by_for_a_while(
    elections: Elections, proxy: Proxy, ring: LiveRing
) -> None:
    """cassandra-facts.md I.0.2: the cure that makes 2 s of 27 s without a renewal. That it is asked again after ten
    seconds is tried among the unit tests."""
    keyspaces = elections.keyspaces
    candidate = elections.candidate("node-a", proxy.hosts)
    handle = candidate.acquire(LEASES[0], within_s=4.0)
    first = ring.hosts.index(keyspaces.client.replicas(keyspaces.strata, LEASES[0])[0]) + 1
    lost = proxy.fault(Act.SWALLOW, "renew", nodes=[first], count=1)
    eventually(lambda: lost.hit, 4.0)
    eventually(lambda: len(proxy.seen("renew", since=lost.hit[0].at)) >= 4, 9.0)
    later = proxy.seen("renew", since=lost.hit[0].at)[1:4]
    assert first not in {request.number for request in later}
    assert candidate.is_held(handle)
