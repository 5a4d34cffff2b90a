"""Reads many partitions of the gc queue at once, page by page. A partition that the replicas refuse to read, for the
tombstones in it, is read in slices of time that are halved until they can be (defect j, faults.md 38)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.stores.cassandra.bulk import Pending, ReadRefused, Row
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.slices import ROWS_A_PAGE, Key, pages
from strata_daemon.stores.cassandra.statements import READ_SHARD

Entries = Callable[[str, int, Sequence[Row]], list[GCEntry]]


class WindowRead:
    """`starts`: for each shard, behind which instant it is read (milliseconds). The first requests are sent when it is
    made; `pages` belongs to one thread."""

    def __init__(self, ring: Ring, region: str, starts: Mapping[int, int], before_ms: int, entries: Entries) -> None:
        self._ring = ring
        self._region = region
        self.starts = starts
        self._before_ms = before_ms
        self._entries = entries
        self._after = {shard: (start_ms, "") for shard, start_ms in starts.items()}
        self._pending = self._begin()

    def pages(self) -> Iterator[list[GCEntry]]:
        """Entries of all shards, those of a shard the oldest first. Raises StoreUnavailable."""
        while self._after:
            try:
                answers = dict(zip(self._after, self._pending.wait(), strict=True))
            except ReadRefused:
                yield from self._in_slices()
                return
            found = [entry for shard, rows in answers.items() for entry in self._entries(self._region, shard, rows)]
            self._after = {s: (rows[-1][0], rows[-1][1]) for s, rows in answers.items() if len(rows) == ROWS_A_PAGE}
            if self._after:
                self._pending = self._begin()
            if found:
                yield found

    def _begin(self) -> Pending:
        bind = self._ring.bind
        return self._ring.begin(
            [bind(READ_SHARD, (self._region, s, *key, self._before_ms, ROWS_A_PAGE)) for s, key in self._after.items()]
        )

    def _in_slices(self) -> Iterator[list[GCEntry]]:
        """What is left of each shard, one after the other."""
        for shard, after in self._after.items():

            def read(key: Key, end_ms: int, shard: int = shard) -> list[Row]:
                return self._ring.read(READ_SHARD, (self._region, shard, *key, end_ms, ROWS_A_PAGE))

            for rows in pages(read, "gc_entries_v2", after, self._before_ms):
                yield self._entries(self._region, shard, rows)
