"""The queue of chunks that wait for deletion, in Strata's shape (strata-keyspace.md 1.2, gc_entries_v2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """The whole queue of a region (defect G1), entries set aside apart and by reason.

    `is_at_least`: there may be more. `counted_ms`: when the oldest part of the count was made (milliseconds since
    1970); None: just now.
    """

    entries: int
    oldest_ms: int | None
    set_aside: Mapping[str, int]
    is_at_least: bool = False
    counted_ms: int | None = None


class GCQueue(Protocol):
    """The gc queue. Calls block for at most a few seconds and raise StoreUnavailable; nothing half done is kept."""

    def busy_shards(self, region: str, shards: Sequence[int], before_ms: int) -> list[int]:
        """Those of `shards` that hold an entry enqueued at or before `before_ms`, ascending; entries set aside do not
        count. A cheap look, also over 1,024 shards and a million entries."""
        ...

    def pages(self, region: str, shards: Sequence[int], before_ms: int, limit: int) -> Iterator[Sequence[GCEntry]]:
        """Every entry of `shards` enqueued at or before `before_ms`, once, in pages of up to `limit`; those of a shard
        the oldest first. Entries set aside are not among them.

        Whoever asks for the next page has taken care of the one before: each of its entries is acked or set aside, or
        is to stay where it is. A store may then begin its next reads behind them.
        """
        ...

    def due_sweep(self, region: str, shards: Sequence[int]) -> list[int]:
        """Those of `shards` that the next `pages` should go over from their very beginning, whether they look busy or
        not. A store whose reads always begin there has none."""
        ...

    def forget(self, region: str, shards: Sequence[int]) -> None:
        """The lease over `shards` was taken anew: somebody else may have worked on them since. Never blocks."""
        ...

    def recount(self, region: str, shards: Sequence[int]) -> None:
        """Bring up to date what `depth` tells of `shards`, where counting costs too much to be done for each asker."""
        ...

    def mend(self, region: str, before_ms: int) -> Iterator[None]:
        """Where the queue has mirrors: find what an interrupted ack or a foreign hand left in them, up to `before_ms`,
        step by step as the caller iterates. Only under the lease of slot 0."""
        ...

    def ack(self, entries: Sequence[GCEntry]) -> None:
        """Remove entries whose chunks are surely gone, set aside or not; one transaction. Need not be durable on
        return: an ack that the machine's end takes back is found again, and its chunk absent."""
        ...

    def begin_ack(self, entries: Sequence[GCEntry]) -> Callable[[], None]:
        """As `ack`, but a store may do it while the caller goes on: what is returned waits for its end, and raises
        what `ack` would have raised. After a failure the caller must `forget` the shards."""
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
