"""The node table: one row a living node, seen by gateways, consoles and the fair share (strata-keyspace.md 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node's heartbeat. `started_at` is aware UTC in whole milliseconds. `remaining_s` is what is left of the row's
    TTL when it was read (None on a row to be written)."""

    node_id: str
    address: str
    version: str
    started_at: datetime
    workers: frozenset[str]
    leader_for: frozenset[str]
    last_heartbeat: datetime
    remaining_s: float | None = None


class Nodes(Protocol):
    """Node rows. Calls block for at most a few seconds and raise StoreUnavailable."""

    def write(self, row: NodeRow, ttl_s: int) -> None:
        """Write a whole row; empty sets stay empty sets."""
        ...

    def remove(self, node_id: str, started_at: datetime) -> None:
        """Remove a row, unless it shows another `started_at` (it is another process's then)."""
        ...

    def read(self) -> Sequence[NodeRow]:
        """Every row that has not expired, by node id."""
        ...
