"""SIGTERM to a real process that leads, whatever the ring does meanwhile (faults.md 31, 43).

The lease is given back, and nothing is sent for it afterwards.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.cassandra.kit.election import TTL_S, Elections
from tests.cassandra.kit.fleet import FAST
from tests.cassandra.kit.keyspaces import Keyspaces
from tests.cassandra.kit.proxy import Act, Proxy
from tests.process.kit import PRODUCT, Daemons, Process, environment, eventually
from tests.rings import LiveRing

LEASE = "gc-leader-0"
START_S = 30.0  # an interpreter, a connection and a look at the schema, on a busy machine
WAIT_S = 4.0  # STRATA_SHUTDOWN_WAIT
# After that wait: the last try of a release, the heartbeat and the timer, the driver (2 s each).
LEAVE_S = 10.0


def run(daemons: Daemons, keyspaces: Keyspaces, state: Path, hosts: str, **settings: str) -> Process:
    """A daemon on a ring, with the times of the fleet."""
    times = {name.removeprefix("STRATA_"): value for name, value in FAST.items()}
    chosen = {**times, **keyspaces.environment(hosts), "SHUTDOWN_WAIT": f"{WAIT_S:g}s", **settings}
    return daemons.start([*PRODUCT, "run"], environment(state, **chosen))


def _leading(daemons: Daemons, keyspaces: Keyspaces, state: Path, proxy: Proxy) -> Process:
    daemon = run(daemons, keyspaces, state, proxy.hosts)
    daemon.wait_said("leader acquired", within_s=START_S)
    _settled(proxy)
    return daemon


def _settled(proxy: Proxy) -> None:
    """The first pass of a term is over: only then does a stop say something about the stop."""
    time.sleep(1.0)
    eventually(lambda: not proxy.seen("other", since=time.clock_gettime(time.CLOCK_BOOTTIME) - 0.3), START_S)


def _no_renewal_after_the_release(proxy: Proxy) -> None:
    released = proxy.seen("release")
    assert released, "nothing was released"
    assert not proxy.seen("renew", since=released[0].at), "renewed after the release"


def test_a_leader_of_a_healthy_ring_hands_over_at_once_and_takes_its_row_away(
    daemons: Daemons, elections: Elections, proxy: Proxy, tmp_path: Path
) -> None:
    keyspaces = elections.keyspaces
    daemon = _leading(daemons, keyspaces, tmp_path / "state", proxy)
    standby = elections.candidate("node-b")
    waiting = standby.runtime.spawn("waiting", lambda: standby.acquire(LEASE, within_s=30.0))
    stopped_at = standby.runtime.now()
    daemon.send(signal.SIGTERM)
    eventually(lambda: (keyspaces.holder(LEASE) or "").startswith("node-b/"), 5.0)
    assert waiting.join(2.0)
    assert standby.runtime.now() - stopped_at < 3.0
    assert daemon.end(LEAVE_S) == 0 and daemon.stderr() == "", daemon.tail()
    assert keyspaces.client.run(f"SELECT node_id FROM {keyspaces.strata}.cluster_nodes") == []
    _no_renewal_after_the_release(proxy)


def test_a_leader_whose_release_nobody_answers_says_so_and_leaves_the_lease_to_its_ttl(
    daemons: Daemons, elections: Elections, proxy: Proxy, tmp_path: Path
) -> None:
    keyspaces = elections.keyspaces
    daemon = _leading(daemons, keyspaces, tmp_path / "state", proxy)
    # Its first pass is over: else the runner's way out takes of the time that is for the three tries.
    eventually(lambda: keyspaces.client.run(f"SELECT shard_id FROM {keyspaces.own}.gc_depth LIMIT 1"), 30.0)
    swallowed = proxy.fault(Act.SWALLOW, "release")
    daemon.send(signal.SIGTERM)
    assert daemon.end(WAIT_S + LEAVE_S) == 0, daemon.tail()
    assert "left to the TTL" in daemon.said("leader release error")[-1]["error"]
    assert {request.number for request in swallowed.hit} == {1, 2, 3}, "not tried on every node"
    _no_renewal_after_the_release(proxy)
    # The row runs out by itself: one TTL after the last renewal, and a retry.
    elections.candidate("node-b").acquire(LEASE, within_s=TTL_S + 2.0)


def test_a_leader_of_a_ring_that_is_down_leaves_in_time(
    daemons: Daemons, keyspaces: Keyspaces, proxy: Proxy, tmp_path: Path
) -> None:
    daemon = _leading(daemons, keyspaces, tmp_path / "state", proxy)
    proxy.cut()
    stopped_at = time.monotonic()
    daemon.send(signal.SIGTERM)
    assert daemon.end(WAIT_S + LEAVE_S) == 0, daemon.tail()
    assert time.monotonic() - stopped_at < WAIT_S + LEAVE_S
    assert daemon.said("node row left to its TTL") and daemon.said("leader release error")


def test_a_node_that_stands_still_keeps_no_process_from_leaving(
    daemons: Daemons, keyspaces: Keyspaces, whole_ring: LiveRing, proxy: Proxy, tmp_path: Path
) -> None:
    """faults.md 43: the driver's own shutdown waits for it, for minutes. The lease is released all the same."""
    daemon = _leading(daemons, keyspaces, tmp_path / "state", proxy)
    whole_ring.pause(2)
    time.sleep(1.0)
    daemon.send(signal.SIGTERM)
    assert daemon.end(WAIT_S + LEAVE_S) == 0, daemon.tail()
    assert keyspaces.holder(LEASE) is None
    _no_renewal_after_the_release(proxy)
