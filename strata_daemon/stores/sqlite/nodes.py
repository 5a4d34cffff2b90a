"""Node rows in SQLite. They expire by CLOCK_BOOTTIME beside the boot id; a row of another boot has expired."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from strata_daemon.base import log
from strata_daemon.base.runtime import Runtime
from strata_daemon.ports.nodes import NodeRow
from strata_daemon.stores.sqlite.database import Database


class SqliteNodes:
    """`boot_id`: in which boot the runtime's clock counts."""

    def __init__(self, database: Database, runtime: Runtime, boot_id: str) -> None:
        self._database = database
        self._runtime = runtime
        self._boot_id = boot_id

    def write(self, row: NodeRow, ttl_s: int) -> None:
        """A row that the machine's end takes back has expired by then: NORMAL will do."""
        now = self._runtime.now()
        with self._database.write(is_durable=False) as connection:
            connection.execute("DELETE FROM nodes WHERE boot_id <> ? OR expires_at <= ?", (self._boot_id, now))
            connection.execute(
                "INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    row.node_id,
                    row.address,
                    row.version,
                    to_ms(row.started_at),
                    json.dumps(sorted(row.workers)),
                    json.dumps(sorted(row.leader_for)),
                    to_ms(row.last_heartbeat),
                    self._boot_id,
                    now + ttl_s,
                ),
            )

    def remove(self, node_id: str, started_at: datetime) -> None:
        with self._database.write(is_durable=False) as connection:
            connection.execute("DELETE FROM nodes WHERE node_id = ? AND started_at = ?", (node_id, to_ms(started_at)))

    def read(self) -> Sequence[NodeRow]:
        now = self._runtime.now()
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT node_id, address, version, started_at, workers, leader_for, last_heartbeat, expires_at"
                " FROM nodes WHERE boot_id = ? AND expires_at > ? ORDER BY node_id",
                (self._boot_id, now),
            ).fetchall()
        return [node for row in rows if (node := _node(row, now)) is not None]


def _node(row: Sequence[Any], now: float) -> NodeRow | None:
    """None, said in the log, for a row that somebody else's hand has spoilt: it must not hide the others."""
    try:
        return NodeRow(
            node_id=row[0],
            address=row[1],
            version=row[2],
            started_at=from_ms(row[3]),
            workers=frozenset(json.loads(row[4])),
            leader_for=frozenset(json.loads(row[5])),
            last_heartbeat=from_ms(row[6]),
            remaining_s=row[7] - now,
        )
    except (ValueError, TypeError, OverflowError) as exc:
        log.logger("nodes").error("node row not readable", extra={"node": str(row[0]), "error": str(exc)})
        return None


def to_ms(moment: datetime) -> int:
    """Milliseconds since 1970, as Strata's timestamp columns keep them."""
    return round(moment.timestamp() * 1000)


def from_ms(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
