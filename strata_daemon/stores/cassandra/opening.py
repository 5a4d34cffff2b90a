"""Opens everything that lives in a Strata keyspace: connection, preflight, skew of the clocks, ports. One try."""

from __future__ import annotations

from dataclasses import dataclass

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.runtime import Runtime
from strata_daemon.ports.meta import Meta
from strata_daemon.ports.shared_settings import SharedSettings
from strata_daemon.stores.cassandra.clock import CassandraClock
from strata_daemon.stores.cassandra.connect import connect
from strata_daemon.stores.cassandra.gc_queue import CassandraGCQueue
from strata_daemon.stores.cassandra.leases import CassandraLeaseStore
from strata_daemon.stores.cassandra.manifests import CassandraManifests
from strata_daemon.stores.cassandra.nodes import CassandraNodes
from strata_daemon.stores.cassandra.preflight import refuse_unfit
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.shared_settings import CassandraSharedSettings
from strata_daemon.stores.cassandra.skew import LEAST_S, SkewMeter

CLOSE_S = 2.0  # the driver may wait for a node that is silent; the process does not


@dataclass(frozen=True, slots=True)
class CassandraStores:
    meta: Meta
    leases: CassandraLeaseStore
    skew: SkewMeter
    ring: Ring
    shared_settings: SharedSettings

    def close(self) -> None:
        self.leases.close(CLOSE_S)
        self.skew.close(CLOSE_S)
        self.ring.close(CLOSE_S)


def open_cassandra(
    settings: CassandraSettings, region: str, runtime: Runtime, *, dual_write: bool = True, read_only: bool = False
) -> CassandraStores:
    """Connect, look whether the keyspaces are fit, measure the clocks. `read_only`: nothing is created, and no thread
    of ours is left running.

    Raises StoreUnavailable when another try may end differently, PreflightError when it would not.
    """
    cluster, lease_session, bulk_session = connect(settings)
    ring = Ring(cluster, lease_session, bulk_session, settings, runtime)
    try:
        refuse_unfit(ring, may_apply=settings.schema_apply and not read_only, only_reads=read_only)
        leases = CassandraLeaseStore(ring, LEAST_S)
        skew = SkewMeter(ring, leases.set_skew)
        queue = CassandraGCQueue(ring, dual_write=dual_write)
        meta = Meta(queue, CassandraNodes(ring), CassandraClock(ring), CassandraManifests(ring))
        if not read_only:
            queue.prepare()
            skew.measure()
            skew.start()
    except BaseException:
        ring.close(CLOSE_S)
        raise
    return CassandraStores(meta, leases, skew, ring, CassandraSharedSettings(ring))
