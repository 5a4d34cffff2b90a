"""Keyspaces for tests, with just the tables that a daemon needs; and a client of its own that reads the truth.

The client's connection goes to the nodes, never through a proxy, and shares nothing with the product but the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cassandra import ConsistencyLevel, ReadTimeout, WriteTimeout
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import ConstantReconnectionPolicy, RoundRobinPolicy
from cassandra.query import SimpleStatement, tuple_factory
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.stores.cassandra.schema import own_statements
from strata_daemon.stores.cassandra.strata_schema import NEEDED, TYPES, create_type
from tests.rings import DATA_CENTRE, LiveRing

Row = tuple[Any, ...]
STATEMENT_S = 60.0
SERIAL_TRIES = 5  # a node gives up after about two seconds


class Client:
    """A plain client of the ring. Reads are LOCAL_SERIAL where they are asked for leases, else LOCAL_QUORUM."""

    def __init__(self, ring: LiveRing) -> None:
        profile = ExecutionProfile(
            load_balancing_policy=RoundRobinPolicy(),
            consistency_level=ConsistencyLevel.LOCAL_QUORUM,
            serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
            request_timeout=STATEMENT_S,
            row_factory=tuple_factory,
        )
        self._cluster = Cluster(
            ring.hosts,
            port=ring.port,
            protocol_version=4,
            compression=False,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            reconnection_policy=ConstantReconnectionPolicy(0.5, max_attempts=None),
            idle_heartbeat_interval=2,
            idle_heartbeat_timeout=2,
        )
        self._session = self._cluster.connect()

    def run(self, cql: str, values: Sequence[Any] = (), *, timeout_s: float = STATEMENT_S) -> list[Row]:
        return list(self._session.execute(cql, tuple(values) or None, timeout=timeout_s))

    def serial(self, cql: str, values: Sequence[Any] = (), *, timeout_s: float = STATEMENT_S) -> list[Row]:
        """Read through Paxos: it finishes what is under way, and so may lose to it for a while."""
        statement = SimpleStatement(cql, consistency_level=ConsistencyLevel.LOCAL_SERIAL)
        again = retry_if_exception_type((ReadTimeout, WriteTimeout))
        for attempt in Retrying(retry=again, stop=stop_after_attempt(SERIAL_TRIES), reraise=True):
            with attempt:
                return list(self._session.execute(statement, tuple(values) or None, timeout=timeout_s))
        raise AssertionError("it returns or raises")

    def applied(self, cql: str, values: Sequence[Any] = (), *, timeout_s: float = STATEMENT_S) -> bool:
        """Run a conditional statement; whether it was applied."""
        return bool(self.run(cql, values, timeout_s=timeout_s)[0][0])

    def replicas(self, keyspace: str, key: str) -> list[str]:
        """The addresses of the nodes that hold a key, the first one first."""
        return [str(host.address) for host in self._cluster.metadata.get_replicas(keyspace, key.encode())]

    def close(self) -> None:
        self._cluster.shutdown()


@dataclass(frozen=True)
class Keyspaces:
    """A keyspace of Strata's and one of ours."""

    strata: str
    own: str
    client: Client
    ring: LiveRing

    def settings(self, hosts: str = "", **changes: Any) -> CassandraSettings:
        """The settings of a client of them; `hosts` (default: the nodes) as in STRATA_CASSANDRA_HOSTS."""
        values = {
            "hosts": hosts or self.ring.contact_points,
            "keyspace": self.strata,
            "own_keyspace": self.own,
            "local_dc": DATA_CENTRE,
            **changes,
        }
        return CassandraSettings.model_validate(values)

    def environment(self, hosts: str = "") -> dict[str, str]:
        """The settings of a daemon on them, without their prefix."""
        return {
            "META_BACKEND": "cassandra",
            "DATA_BACKEND": "memory",
            "CASSANDRA_HOSTS": hosts or self.ring.contact_points,
            "CASSANDRA_KEYSPACE": self.strata,
            "CASSANDRA_DC": DATA_CENTRE,
            "DAEMON_KEYSPACE": self.own,
        }

    def holder(self, lease: str) -> str | None:
        rows = self.client.serial(f"SELECT holder FROM {self.strata}.worker_locks WHERE name = %s", (lease,))
        return rows[0][0] if rows else None

    def release(self, lease: str, holder: str) -> bool:
        return self.client.applied(
            f"DELETE FROM {self.strata}.worker_locks WHERE name = %s IF holder = %s", (lease, holder)
        )

    def take(self, lease: str, holder: str, ttl_s: int | None, *, timeout_s: float = STATEMENT_S) -> bool:
        """As a gateway does it; None: without an end."""
        using = "" if ttl_s is None else f" USING TTL {ttl_s}"
        return self.client.applied(
            f"INSERT INTO {self.strata}.worker_locks (name, holder) VALUES (%s, %s) IF NOT EXISTS{using}",
            (lease, holder),
            timeout_s=timeout_s,
        )

    def empty(self) -> None:
        """Leave nothing in them. Where leases are, by conditional statements: plain ones are not ordered with those."""
        for keyspace, table in ((self.strata, "worker_locks"), (self.own, "lease_tokens")):
            for (name,) in self.client.run(f"SELECT name FROM {keyspace}.{table}"):
                self.client.run(f"DELETE FROM {keyspace}.{table} WHERE name = %s IF EXISTS", (name,))
        for name in ("cluster_nodes", "gc_entries_v2", "gc_entries_by_cluster", "gc_queue"):
            self._empty(self.strata, name)
        for name in ("signals", "gc_set_aside", "gc_depth", "node_settings", "terms"):
            self._empty(self.own, name)

    def _empty(self, keyspace: str, table: str) -> None:
        """A TRUNCATE asks every node and takes its time: only for what is not empty already."""
        if self.client.run(f"SELECT * FROM {keyspace}.{table} LIMIT 1"):
            self.client.run(f"TRUNCATE {keyspace}.{table}")


def make(client: Client, ring: LiveRing, name: str) -> Keyspaces:
    """Both keyspaces, empty; made when they are not there."""
    made = Keyspaces(name, f"{name}_own", client, ring)
    replication = f"{{'class': 'NetworkTopologyStrategy', '{DATA_CENTRE}': '{min(3, len(ring.hosts))}'}}"
    strata = [
        f"CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {replication}",
        *(create_type(name, each) for each in TYPES),
        *(table.create(name) for table in NEEDED),
    ]
    for statement in strata + own_statements(made.own, replication):
        client.run(statement)
    made.empty()
    return made
