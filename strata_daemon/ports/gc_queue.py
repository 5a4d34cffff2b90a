"""The queue of chunks that wait for deletion, in Strata's shape (strata-keyspace.md 1.2, gc_entries_v2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class GCEntry(NamedTuple):
    """One chunk to delete. The key is (region, shard, enqueued_at_ms, oid), used exactly as read.

    `shard` is the logical shard 0..1023, `enqueued_at_ms` the stored timestamp (milliseconds since 1970, because it
    is a key and not a duration). `oid` may hold anything that somebody wrote there; bytes that are not UTF-8 arrive
    as surrogate escapes.
    """

    region: str
    shard: int
    enqueued_at_ms: int
    oid: str
    cluster: str
    pool: str
    namespace: str


class SetAside(NamedTuple):
    """An entry whose deletion failed: kept apart so that it neither spins nor blocks what lies behind it (defect e)."""

    entry: GCEntry
    reason: str
    tries: int
    retry_at_ms: int


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The whole queue of a region (defect G1), entries set aside apart and by reason."""

    entries: int
    oldest_ms: int | None
    set_aside: Mapping[str, int]


class GCQueue(Protocol):
    """The gc queue. Calls block for at most a few seconds and raise StoreUnavailable; nothing half done is kept."""

    def busy_shards(self, region: str, shards: Sequence[int], before_ms: int) -> list[int]:
        """Those of `shards` that hold an entry enqueued at or before `before_ms`, ascending; entries set aside do not
        count. A cheap look, also over 1,024 shards and a million entries."""
        ...

    def read(
        self, region: str, shards: Sequence[int], before_ms: int, limit: int, after: GCEntry | None = None
    ) -> list[GCEntry]:
        """Up to `limit` entries enqueued at or before `before_ms`: shards in ascending order, within each the oldest
        first, only those behind `after` in that order. Entries set aside are not among them."""
        ...

    def ack(self, entries: Sequence[GCEntry]) -> None:
        """Remove entries whose chunks are surely gone, set aside or not; one transaction. Need not be durable on
        return: an ack that the machine's end takes back is found again, and its chunk absent."""
        ...

    def set_aside(self, entries: Sequence[SetAside]) -> int:
        """Move entries out of the reader's way, or renew the tries of one that is set aside already. Bounded at
        100,000 a region: what is over stays where it is; the number moved or renewed is returned."""
        ...

    def due_set_aside(self, region: str, shards: Sequence[int], now_ms: int, limit: int) -> list[SetAside]:
        """Up to `limit` entries set aside in `shards` whose `retry_at_ms` is at or before `now_ms`, soonest first."""
        ...

    def enqueue(self, entries: Sequence[GCEntry]) -> None:
        """Add entries; adding one that is there already changes nothing. Durable on return."""
        ...

    def depth(self, region: str) -> QueueDepth:
        """The size of the whole queue of `region`; well under a second on a million entries."""
        ...
