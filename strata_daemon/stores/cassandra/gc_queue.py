"""The gc queue in Strata's three tables: `gc_entries_v2`, by which it is worked, and its two mirrors.

A read begins at the floor of its partition (`gc_floors`), partitions are read in parallel, an ack is one statement a
partition. Entries that fail stay where they are and are remembered by key (`gc_shelf`). Called by the fan-out's thread
and by those of its passes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.ports.gc_queue import GCEntry, QueueDepth, SetAside
from strata_daemon.stores.cassandra.bulk import Row
from strata_daemon.stores.cassandra.gc_depth import DepthRows
from strata_daemon.stores.cassandra.gc_floors import Floors
from strata_daemon.stores.cassandra.gc_mirrors import Mirrors
from strata_daemon.stores.cassandra.gc_shelf import Shelf
from strata_daemon.stores.cassandra.gc_window import WindowRead
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import (
    ACK,
    ACK_BY_CLUSTER,
    ACK_OLD,
    CLUSTERS_IN_USE,
    COUNT_SHARD,
    ENQUEUE,
    ENQUEUE_BY_CLUSTER,
    ENQUEUE_OLD,
    IN_MAX,
    READ_BY_CLUSTER,
    READ_OLD,
    READ_SET_ASIDE,
    READ_SHARD,
    SHARD_FIRSTS,
    SHARDS_IN_USE,
    WRITE_DEPTH,
    Statement,
)

WINDOW = 512  # partitions read at once; a page of each is in memory
ROWS_A_STATEMENT = 500
ASIDE_MAX = 1000  # entries set aside that a look steps over in one partition
USED = (
    READ_SET_ASIDE,
    READ_SHARD,
    SHARD_FIRSTS,
    ACK,
    ACK_BY_CLUSTER,
    ACK_OLD,
    COUNT_SHARD,
    WRITE_DEPTH,
    READ_OLD,
    READ_BY_CLUSTER,
    CLUSTERS_IN_USE,
    SHARDS_IN_USE,
)


class CassandraGCQueue:
    """`_floors` and `_late` are guarded by `_lock`; the parts lock for themselves."""

    def __init__(self, ring: Ring, *, dual_write: bool = True) -> None:
        self._ring = ring
        self._dual_write = dual_write
        self._lock = threading.Lock()  # guards _floors and _late
        self._floors = Floors()
        # Rows that were written in our future, by whose clock it may be: an ack must outrank them.
        self._late: dict[GCEntry, int] = {}
        self._shelf = Shelf(ring)
        self._depths = DepthRows(ring, self._shelf)
        self._mirrors = Mirrors(ring, dual_write=dual_write)

    def prepare(self) -> None:
        """Prepare what a pass sends, so that the first one under a lease does not wait for it. Raises
        StoreUnavailable."""
        for statement in USED:
            self._ring.prepared(statement)

    # -- looking

    def busy_shards(self, region: str, shards: Sequence[int], before_ms: int) -> list[int]:
        """One request for each hundred shards. A shard whose first entries are all set aside, up to a thousand of
        them, counts as idle; with more than that as busy."""
        self._shelf.load(region, shards)
        groups = [list(shards[start : start + IN_MAX]) for start in range(0, len(shards), IN_MAX)]
        requests, limits = [], []
        for group in groups:
            start_ms = self._start_ms(region, group)
            aside = max((len(self._shelf.keys(region, shard)) for shard in group), default=0)
            limits.append(min(aside, ASIDE_MAX) + 1)
            requests.append(self._ring.bind(SHARD_FIRSTS, (region, group, start_ms, limits[-1])))
        busy: set[int] = set()
        for limit, rows in zip(limits, self._ring.gather(requests), strict=True):
            busy.update(self._busy(region, rows, before_ms, limit))
        return sorted(busy)

    def due_sweep(self, region: str, shards: Sequence[int]) -> list[int]:
        with self._lock:
            return self._floors.due_sweep(region, shards, self._ring.runtime.now())

    def forget(self, region: str, shards: Sequence[int]) -> None:
        with self._lock:
            self._floors.forget(region, shards)
        self._shelf.forget(region, shards)
        if 0 in shards:
            self._mirrors.forget(region)

    def _start_ms(self, region: str, shards: Sequence[int]) -> int:
        now = self._ring.runtime.now()
        with self._lock:
            return min(self._floors.start_ms(region, shard, now) for shard in shards)

    def _busy(self, region: str, rows: Sequence[Row], before_ms: int, limit: int) -> set[int]:
        seen: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        for shard, at_ms, oid in rows:
            if at_ms <= before_ms:
                seen[shard].append((at_ms, oid))
        return {
            shard
            for shard, keys in seen.items()
            if len(keys) >= limit > 1 or not self._shelf.keys(region, shard).issuperset(keys)
        }

    # -- reading

    def pages(self, region: str, shards: Sequence[int], before_ms: int, limit: int) -> Iterator[Sequence[GCEntry]]:
        """Many partitions are read at once, then worked on: what is sent together is answered together, which costs a
        ring less than reads and acks in turn."""
        for start in range(0, len(shards), WINDOW):
            window = shards[start : start + WINDOW]
            wait_for_shelf = self._shelf.begin_load(region, window)
            starts = {shard: self._start_ms(region, [shard]) for shard in window}
            with self._lock:
                for shard in window:
                    self._floors.begin_read(region, shard)
            read = WindowRead(self._ring, region, starts, before_ms, self._entries)
            wait_for_shelf()
            for entries in read.pages():
                for first in range(0, len(entries), limit):
                    yield entries[first : first + limit]
            now = self._ring.runtime.now()
            with self._lock:
                for shard, start_ms in starts.items():
                    self._floors.read_up_to(region, shard, start_ms, before_ms, now)

    def _entries(self, region: str, shard: int, rows: Sequence[Row]) -> list[GCEntry]:
        """Without those set aside. A null column reads as empty: its deletion says what is wrong with such an entry."""
        aside = self._shelf.keys(region, shard)
        now_us = int(self._ring.runtime.wall().timestamp() * 1_000_000)
        entries = []
        for at_ms, oid, cluster, pool, namespace, written_us in rows:
            if (at_ms, oid) in aside:
                continue
            entry = GCEntry(region, shard, at_ms, oid, cluster or "", pool or "", namespace or "")
            entries.append(entry)
            if written_us is not None and written_us >= now_us:
                with self._lock:
                    self._late[entry] = written_us
        return entries

    # -- changing

    def ack(self, entries: Sequence[GCEntry]) -> None:
        self.begin_ack(entries)()

    def begin_ack(self, entries: Sequence[GCEntry]) -> Callable[[], None]:
        """All three tables at once. What an interruption leaves in the queue is acked again; what it leaves in a mirror
        is found by `mend`, which begins anew after a failure (G7)."""
        by_shard: defaultdict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        by_cluster: defaultdict[str, list[tuple[str, int, str]]] = defaultdict(list)
        old: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for region, shard, at_ms, oid, cluster, _, _ in entries:
            key = (at_ms, oid)
            by_shard[region, shard].append(key)
            if cluster:
                by_cluster[cluster].append((region, at_ms, oid))
            if self._dual_write:
                old[region].append(key)
        stamp, bind = self._stamp(entries), self._ring.bind
        requests = [bind(ACK_BY_CLUSTER, (stamp, cluster, part)) for cluster, part in _parts(by_cluster)]
        requests += [bind(ACK_OLD, (stamp, region, part)) for region, part in _parts(old)]
        requests += [bind(ACK, (stamp, region, shard, part)) for (region, shard), part in _parts(by_shard)]
        pending = self._ring.begin(requests + self._shelf.remove(by_shard))

        def wait() -> None:
            try:
                pending.wait()
            except StoreUnavailable:
                for region in {entry.region for entry in entries}:
                    self._mirrors.forget(region)
                raise

        return wait

    def _stamp(self, entries: Sequence[GCEntry]) -> int:
        """`max(now, WRITETIME + 1)` in microseconds over all of them (design.md, wall clocks): a slow host clock cannot
        lose a delete, and a key is never used again, so that a later stamp hides nothing."""
        now_us = int(self._ring.runtime.wall().timestamp() * 1_000_000)
        with self._lock:
            if not self._late:
                return now_us
            return max(now_us, *(self._late.pop(entry, 0) + 1 for entry in entries))

    def set_aside(self, entries: Sequence[SetAside]) -> int:
        refused = self._shelf.put(entries)
        with self._lock:
            for entry in (aside.entry for aside in refused):
                self._floors.hold(entry.region, entry.shard, entry.enqueued_at_ms)
        return len(entries) - len(refused)

    def due_set_aside(self, region: str, shards: Sequence[int], now_ms: int, limit: int) -> list[SetAside]:
        self._shelf.load(region, shards)
        return self._shelf.due(region, shards, now_ms, limit)

    def enqueue(self, entries: Sequence[GCEntry]) -> None:
        """Into all three tables; the queue last, so that a mirror never lacks what the queue has."""
        mirrors: list[tuple[Statement, Sequence[Any], tuple[Any, ...]]] = [
            (ENQUEUE_BY_CLUSTER, (e.cluster, e.region, e.enqueued_at_ms, e.oid, e.pool, e.namespace), ("c", e.cluster))
            for e in entries
            if e.cluster
        ]
        if self._dual_write:
            mirrors += [
                (ENQUEUE_OLD, (e.region, e.enqueued_at_ms, e.oid, e.pool, e.cluster, e.namespace), ("o", e.region))
                for e in entries
            ]
        queue: list[tuple[Statement, Sequence[Any], tuple[Any, ...]]] = [
            (ENQUEUE, (e.region, e.shard, e.enqueued_at_ms, e.oid, e.pool, e.cluster, e.namespace), (e.region, e.shard))
            for e in entries
        ]
        for rows in (mirrors, queue):
            self._ring.gather(self._batches(rows))

    def _batches(self, rows: Sequence[tuple[Statement, Sequence[Any], tuple[Any, ...]]]) -> list[Any]:
        """One unlogged batch a partition, in bounded parts."""
        by_partition: defaultdict[tuple[Any, ...], list[tuple[Statement, Sequence[Any]]]] = defaultdict(list)
        for statement, values, partition in rows:
            by_partition[partition].append((statement, values))
        return [self._ring.batch(part) for _, part in _parts(by_partition)]

    # -- counting and mending

    def recount(self, region: str, shards: Sequence[int]) -> None:
        self._shelf.load(region, shards)
        self._depths.refresh(region, {shard: self._start_ms(region, [shard]) for shard in shards})

    def mend(self, region: str, before_ms: int) -> Iterator[None]:
        return self._mirrors.mend(region, before_ms)

    def depth(self, region: str) -> QueueDepth:
        return self._depths.read(region)


def _parts(groups: Mapping[Any, Sequence[Any]]) -> Iterator[tuple[Any, Sequence[Any]]]:
    for key, rows in groups.items():
        for start in range(0, len(rows), ROWS_A_STATEMENT):
            yield key, rows[start : start + ROWS_A_STATEMENT]
