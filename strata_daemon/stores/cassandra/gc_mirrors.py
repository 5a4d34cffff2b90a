"""Mends the mirrors of the gc queue: rows of `gc_queue` and `gc_entries_by_cluster` that the queue itself lacks.

Such a row is either work that never reached the queue (an old gateway), or what an interrupted ack or a gateway's start
left behind (G7, G5). It is written into the queue under its own timestamp: work is found there by the next pass; what
was acked stays hidden by the ack, and then the mirror's row is a ghost and goes. Nothing is decided by age alone, and a
chunk that is asked for twice is found absent. Read in slices of bounded time, since every row that was ever acked left
a tombstone in one partition (defect j, V1). Called under the lease of slot 0, on the thread of its pass.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from strata_daemon.base import log
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.stores.cassandra.bulk import Row
from strata_daemon.stores.cassandra.gc_floors import LAG_MS, START_MS
from strata_daemon.stores.cassandra.gc_shelf import SHARDS
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.slices import LAST_OID, ROWS_A_PAGE, Key, pages
from strata_daemon.stores.cassandra.statements import (
    ACK_BY_CLUSTER,
    ACK_OLD,
    CLUSTERS_IN_USE,
    FIND_ENTRIES,
    READ_BY_CLUSTER,
    READ_OLD,
    RESTORE,
    SHARDS_IN_USE,
    Statement,
)

PERIOD_S = 600.0  # the newer part of gc_queue
SWEEP_S = 86_400.0  # everything
# What is younger may still be worked on by the holder of its slot, or be on its way into the queue.
PATIENCE_MS = 600_000
KEYS_A_READ = 200


@dataclass(slots=True)
class _Tally:
    restored: int = 0
    ghosts: int = 0


class Mirrors:
    """One pass at a time per region: others that come meanwhile leave. `_lock` guards the three dicts."""

    def __init__(self, ring: Ring, *, dual_write: bool) -> None:
        self._ring = ring
        self._dual_write = dual_write
        self._lock = threading.Lock()
        self._swept_at: dict[str, float] = {}
        self._mended_at: dict[str, float] = {}
        self._old_floor: dict[str, int] = {}
        self._said: set[tuple[str, int]] = set()
        self._log = log.logger("gc")

    def forget(self, region: str) -> None:
        """The lease was taken anew: sweep at the next chance."""
        with self._lock:
            self._swept_at.pop(region, None)
            self._old_floor.pop(region, None)

    def mend(self, region: str, before_ms: int) -> Iterator[None]:
        """What is due now, a step a page: whoever has no more time stops in between, and it is due again. Raises
        StoreUnavailable; what was mended before stays so."""
        now, until_ms = self._ring.runtime.now(), before_ms - PATIENCE_MS
        with self._lock:
            swept_at, mended_at = self._swept_at.get(region), self._mended_at.get(region)
            is_sweep = swept_at is None or now - swept_at >= SWEEP_S
            if not is_sweep and mended_at is not None and now - mended_at < PERIOD_S:
                return
            floor_ms = START_MS if is_sweep else self._old_floor.get(region, START_MS)
        tally = _Tally()
        yield from self._mend_old(region, floor_ms, until_ms, tally)
        if is_sweep:
            for cluster in self._clusters():
                yield from self._mend_cluster(region, cluster, until_ms, tally)
            self._tell_stray_shards()
        with self._lock:
            self._mended_at[region] = now
            if is_sweep:
                self._swept_at[region] = now
            self._old_floor[region] = until_ms - LAG_MS
        if tally.restored or tally.ghosts:
            fields = {"region": region, "restored": tally.restored, "ghosts": tally.ghosts}
            self._log.warning("gc mirrors mended", extra=fields)

    def _mend_old(self, region: str, from_ms: int, until_ms: int, tally: _Tally) -> Iterator[None]:
        if not self._dual_write:
            return

        def delete(stamp: int, entries: Sequence[GCEntry]) -> list[Any]:
            keys = [(entry.enqueued_at_ms, entry.oid) for entry in entries]
            return [self._ring.bind(ACK_OLD, (stamp, region, keys))]

        rows = self._pages(READ_OLD, (region,), from_ms, until_ms)
        yield from self._mend(region, rows, delete, tally)

    def _mend_cluster(self, region: str, cluster: str, until_ms: int, tally: _Tally) -> Iterator[None]:
        def delete(stamp: int, entries: Sequence[GCEntry]) -> list[Any]:
            keys = [(entry.region, entry.enqueued_at_ms, entry.oid) for entry in entries]
            return [self._ring.bind(ACK_BY_CLUSTER, (stamp, cluster, keys))]

        rows = self._pages(READ_BY_CLUSTER, (cluster, region), START_MS, until_ms)
        yield from self._mend(region, rows, delete, tally)

    def _mend(
        self,
        region: str,
        pages_of: Iterator[list[Row]],
        delete: Callable[[int, Sequence[GCEntry]], list[Any]],
        tally: _Tally,
    ) -> Iterator[None]:
        for rows in pages_of:
            yield
            for start in range(0, len(rows), KEYS_A_READ):
                now_us = int(self._ring.runtime.wall().timestamp() * 1_000_000)
                part = [_mirror(region, row, now_us) for row in rows[start : start + KEYS_A_READ]]
                present = self._present([entry for entry, _ in part])
                lost = [each for each in part if each[0] not in present]
                if not lost:
                    continue
                self._ring.gather([self._ring.bind(RESTORE, _restored(entry, us)) for entry, us in lost])
                back = self._present([entry for entry, _ in lost])
                gone = [(entry, us) for entry, us in lost if entry not in back]
                tally.restored += len(back)
                tally.ghosts += len(gone)
                if gone:
                    stamp = max(now_us, *(us + 1 for _, us in gone))
                    self._ring.gather(delete(stamp, [entry for entry, _ in gone]))

    def _present(self, entries: Sequence[GCEntry]) -> set[GCEntry]:
        """Those that the queue has."""
        by_shard: defaultdict[tuple[str, int], list[GCEntry]] = defaultdict(list)
        for entry in entries:
            by_shard[entry.region, entry.shard].append(entry)
        requests = [
            self._ring.bind(FIND_ENTRIES, (*place, [(each.enqueued_at_ms, each.oid) for each in group]))
            for place, group in by_shard.items()
        ]
        found: set[GCEntry] = set()
        for group, rows in zip(by_shard.values(), self._ring.gather(requests), strict=True):
            keys = {(at_ms, oid) for at_ms, oid in rows}
            found.update(each for each in group if (each.enqueued_at_ms, each.oid) in keys)
        return found

    def _pages(self, statement: Statement, where: Sequence[Any], from_ms: int, until_ms: int) -> Iterator[list[Row]]:
        def read(key: Key, end_ms: int) -> list[Row]:
            return self._ring.read(statement, (*where, *key, end_ms, ROWS_A_PAGE))

        return pages(read, statement.table, (from_ms, LAST_OID), until_ms)

    def _clusters(self) -> list[str]:
        return sorted({row[0] for row in self._ring.read(CLUSTERS_IN_USE)})

    def _tell_stray_shards(self) -> None:
        """Entries of a shard that no slot reads: counted for nobody, so said once each."""
        for region, shard in self._ring.read(SHARDS_IN_USE):
            with self._lock:
                is_known = 0 <= shard < SHARDS or (region, shard) in self._said
                self._said.add((region, shard))
            if not is_known:
                fields = {"region": region, "shard": shard, "error": "no such shard: its entries are left in place"}
                self._log.warning("gc shard out of range", extra=fields)


def _mirror(region: str, row: Sequence[Any], now_us: int) -> tuple[GCEntry, int]:
    """The entry that the row mirrors, and when it was written. A row whose pool is null does not tell: it counts as
    written now, so that it is worked on once more rather than taken for a ghost."""
    at_ms, oid, cluster, pool, namespace, written_us = row
    entry = GCEntry(region, gc_shard(oid), at_ms, oid, cluster or "", pool or "", namespace or "")
    return entry, now_us if written_us is None else written_us


def _restored(entry: GCEntry, written_us: int) -> tuple[Any, ...]:
    key = (entry.region, entry.shard, entry.enqueued_at_ms, entry.oid)
    return (*key, entry.pool, entry.cluster, entry.namespace, written_us)
