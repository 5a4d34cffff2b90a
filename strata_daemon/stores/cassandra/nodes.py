"""Node rows in `cluster_nodes`, shared with the gateways (strata-keyspace.md 1.2, 8.1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from strata_daemon.base import log
from strata_daemon.ports.nodes import NodeRow
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import READ_NODE, READ_NODES, REMOVE_NODE, WRITE_NODE


class CassandraNodes:
    """`_spoilt` holds the ids of rows that could not be read and were said; only `read` of one thread at a time adds
    to it, and twice said is no harm."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._spoilt: set[str] = set()

    def write(self, row: NodeRow, ttl_s: int) -> None:
        """Empty sets are bound as empty sets, as Strata does; Cassandra keeps no difference between those and null."""
        if ttl_s < 1:
            raise ValueError(f"a node row of {ttl_s} s would never end")
        self._ring.write(
            WRITE_NODE,
            (
                row.node_id,
                row.address,
                row.version,
                row.started_at,
                set(row.workers),
                set(row.leader_for),
                row.last_heartbeat,
                ttl_s,
            ),
        )

    def remove(self, node_id: str, started_at: datetime) -> None:
        """Not conditional, as nothing in this table is: a row that another process writes in between comes back with
        its next heartbeat."""
        rows = self._ring.read(READ_NODE, (node_id,))
        if rows and _utc(rows[0][0]) == started_at:
            self._ring.write(REMOVE_NODE, (node_id,))

    def read(self) -> Sequence[NodeRow]:
        """A scan of a table that holds one row a node. A row without a TTL is one that nobody renews: left out."""
        rows = self._ring.read(READ_NODES)
        found = [node for row in rows if (node := self._node(row)) is not None]
        return sorted(found, key=lambda node: node.node_id)

    def _node(self, row: Sequence[Any]) -> NodeRow | None:
        """None, said once in the log, for a row that lacks what a node row has: it must not hide the others."""
        node_id, address, version, started_at, workers, leader_for, last_heartbeat, ttl_s = row
        if None in (address, started_at, last_heartbeat, ttl_s):
            if node_id not in self._spoilt:
                self._spoilt.add(node_id)
                fields = {"node": node_id[:200], "error": "a column is null, or the row has no TTL"}
                log.logger("nodes").error("node row not readable", extra=fields)
            return None
        return NodeRow(
            node_id=node_id,
            address=address,
            version=version or "",
            started_at=_utc(started_at),
            workers=frozenset(workers or ()),
            leader_for=frozenset(leader_for or ()),
            last_heartbeat=_utc(last_heartbeat),
            remaining_s=float(ttl_s),
        )


def _utc(moment: datetime | None) -> datetime:
    """The driver gives naive UTC."""
    return datetime.min.replace(tzinfo=UTC) if moment is None else moment.replace(tzinfo=UTC)
