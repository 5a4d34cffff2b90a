"""What nodes run with, one row a node in one partition of our keyspace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from strata_daemon.ports.shared_settings import NodeSettings
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import READ_SETTINGS, WRITE_SETTINGS

SCOPE = "nodes"


class CassandraSharedSettings:
    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def write(self, mine: NodeSettings, ttl_s: int) -> None:
        self._ring.write(WRITE_SETTINGS, (SCOPE, mine.node_id, mine.started_at, mine.gc_shards, ttl_s))

    def read(self) -> Sequence[NodeSettings]:
        """A row that lacks a column, by an older or a foreign hand, says nothing."""
        return [
            NodeSettings(node, started_at.replace(tzinfo=UTC), gc_shards)
            for node, started_at, gc_shards in self._ring.read(READ_SETTINGS, (SCOPE,))
            if started_at is not None and gc_shards is not None
        ]
