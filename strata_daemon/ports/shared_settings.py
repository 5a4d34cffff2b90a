"""What each node runs with, where all nodes of a store must run with the same (strata-keyspace.md 1.4: the lease names
carry no shard count, so two nodes with different counts take the same leases for different parts of the queue)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """`started_at` is that of the node's row in the node table: with it an old row is told from a living node's."""

    node_id: str
    started_at: datetime
    gc_shards: int


class SharedSettings(Protocol):
    """Calls block for at most a few seconds and raise StoreUnavailable."""

    def write(self, mine: NodeSettings, ttl_s: int) -> None: ...

    def read(self) -> Sequence[NodeSettings]:
        """Every row that has not expired, by node id."""
        ...
