"""A node that stands still holds no worker's request up: another one is asked too, before the driver finds it out."""

from __future__ import annotations

import time

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.stores.cassandra.connect import connect
from strata_daemon.stores.cassandra.gc_queue import CassandraGCQueue
from strata_daemon.stores.cassandra.ring import Ring
from tests.cassandra.kit.keyspaces import Keyspaces
from tests.rings import LiveRing

REGION = "region-1"
SHARDS = range(24)  # with a copy on each node, a third of them ask the silent one first
# The driver needs up to 4 s to find a silent node out; a second is waited for each request, and some time to spare.
WITHIN_S = 3.0


def test_a_node_that_stands_still_costs_a_request_of_a_worker_a_second(
    keyspaces: Keyspaces, whole_ring: LiveRing
) -> None:
    """faults.md 36: each of look, read and ack was a pass that crashed after 5 s, or one that stood for 10 s."""
    settings = keyspaces.settings()
    ring = Ring(*connect(settings), settings, RealRuntime())
    try:
        queue = CassandraGCQueue(ring)
        queue.prepare()
        entries = [GCEntry(REGION, shard, 1_000, f"oid-{shard}", "main", "data", "") for shard in SHARDS]
        queue.enqueue(entries)
        queue.busy_shards(REGION, SHARDS, 2_000)
        whole_ring.pause(1)
        began = time.monotonic()
        found = [entry for page in queue.pages(REGION, SHARDS, 2_000, 100) for entry in page]
        read_at = time.monotonic()
        assert sorted(found) == sorted(entries)
        assert read_at - began < WITHIN_S
        queue.ack(entries)
        assert time.monotonic() - read_at < WITHIN_S
        whole_ring.resume(1)
        assert not queue.busy_shards(REGION, SHARDS, 2_000)
    finally:
        ring.close(5.0)
