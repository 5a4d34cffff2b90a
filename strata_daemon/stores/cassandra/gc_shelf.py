"""Entries set aside, as keys in our own keyspace; the rows stay in Strata's tables, where a gateway still finds them.

What this process works on is kept in memory as well, so that neither a look nor a read asks the ring for it.
Thread-safe.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from strata_daemon.ports.gc_queue import GCEntry, SetAside
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import FORGET_SET_ASIDE, READ_SET_ASIDE, SET_ASIDE

SET_ASIDE_MAX = 100_000  # a region, over all daemons: each may use the part of the shards that it works on
SHARDS = 1024
SHARDS_A_PART = 16  # a partition a shard would be 1,024 reads of what is nearly always nothing
ROWS_A_BATCH = 100
Key = tuple[int, str]  # enqueued_at_ms, oid


class Shelf:
    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._lock = threading.Lock()  # guards _shards
        self._shards: dict[tuple[str, int], dict[Key, SetAside]] = {}

    def forget(self, region: str, shards: Iterable[int]) -> None:
        """Another process may have worked on them since."""
        with self._lock:
            for shard in shards:
                self._shards.pop((region, shard), None)

    def load(self, region: str, shards: Sequence[int]) -> None:
        """Read those that are not known. Raises StoreUnavailable."""
        self.begin_load(region, shards)()

    def begin_load(self, region: str, shards: Sequence[int]) -> Callable[[], None]:
        """As `load`; what it returns waits for the answers. In the meantime `keys` does not know these shards."""
        with self._lock:
            missing = [shard for shard in shards if (region, shard) not in self._shards]
        by_part: defaultdict[int, list[int]] = defaultdict(list)
        for shard in missing:
            by_part[_part(shard)].append(shard)
        pending = self._ring.begin(
            [self._ring.bind(READ_SET_ASIDE, (region, part, group)) for part, group in by_part.items()]
        )

        def wait() -> None:
            found: defaultdict[int, dict[Key, SetAside]] = defaultdict(dict)
            for row in (row for page in pending.wait() for row in page):
                aside = _set_aside(region, row)
                found[aside.entry.shard][aside.entry.enqueued_at_ms, aside.entry.oid] = aside
            with self._lock:
                for shard in missing:  # what was put there meanwhile is the newer
                    self._shards[region, shard] = found.get(shard, {}) | self._shards.get((region, shard), {})

        return wait

    def keys(self, region: str, shard: int) -> frozenset[Key]:
        """Of a loaded shard."""
        with self._lock:
            return frozenset(self._shards.get((region, shard), ()))

    def due(self, region: str, shards: Sequence[int], now_ms: int, limit: int) -> list[SetAside]:
        with self._lock:
            due = [
                aside
                for shard in shards
                for aside in self._shards.get((region, shard), {}).values()
                if aside.retry_at_ms <= now_ms
            ]
        return sorted(due, key=lambda aside: aside.retry_at_ms)[:limit]

    def counts(self, region: str, shard: int) -> Mapping[str, int]:
        """By reason."""
        with self._lock:
            return Counter(aside.reason for aside in self._shards.get((region, shard), {}).values())

    def put(self, asides: Sequence[SetAside]) -> list[SetAside]:
        """Keep as many as there is room for; the others. Raises StoreUnavailable: then any part was kept, which is no
        harm, since a key that is kept twice is kept once."""
        kept, refused = self._by_room(asides)
        by_part: defaultdict[tuple[str, int], list[SetAside]] = defaultdict(list)
        for aside in kept:
            by_part[aside.entry.region, _part(aside.entry.shard)].append(aside)
        batches = []
        for rows in by_part.values():
            for start in range(0, len(rows), ROWS_A_BATCH):
                part = rows[start : start + ROWS_A_BATCH]
                batches.append(self._ring.batch([(SET_ASIDE, _values(aside)) for aside in part]))
        self._ring.gather(batches)
        with self._lock:
            for aside in kept:
                entry = aside.entry
                shard = self._shards.setdefault((entry.region, entry.shard), {})
                shard[entry.enqueued_at_ms, entry.oid] = aside
        return refused

    def remove(self, by_shard: Mapping[tuple[str, int], Sequence[Key]]) -> list[Any]:
        """Forget keys whose entries were acked; the requests that say so to the ring, for the caller to send."""
        requests = []
        with self._lock:
            for (region, shard), keys in by_shard.items():
                held = self._shards.get((region, shard))
                gone = [key for key in keys if key in held] if held else []
                for key in gone:
                    del self._shards[region, shard][key]
                if gone:
                    requests.append((region, _part(shard), shard, gone))
        return [self._ring.bind(FORGET_SET_ASIDE, values) for values in requests]

    def _by_room(self, asides: Sequence[SetAside]) -> tuple[list[SetAside], list[SetAside]]:
        """Those to keep, and those that there is no room for. What is here already is renewed."""
        kept: list[SetAside] = []
        refused: list[SetAside] = []
        with self._lock:
            room: dict[str, int] = {}
            for aside in asides:
                entry = aside.entry
                if entry.region not in room:
                    mine = [shard for (region, _), shard in self._shards.items() if region == entry.region]
                    share = math.ceil(SET_ASIDE_MAX * max(1, len(mine)) / SHARDS)
                    room[entry.region] = share - sum(map(len, mine))
                if (entry.enqueued_at_ms, entry.oid) in self._shards.get((entry.region, entry.shard), ()):
                    kept.append(aside)
                elif room[entry.region] > 0:
                    room[entry.region] -= 1
                    kept.append(aside)
                else:
                    refused.append(aside)
        return kept, refused


def _part(shard: int) -> int:
    return shard // SHARDS_A_PART


def _values(aside: SetAside) -> tuple[Any, ...]:
    entry = aside.entry
    key = (entry.region, _part(entry.shard), entry.shard, entry.enqueued_at_ms, entry.oid)
    return (*key, entry.cluster, entry.pool, entry.namespace, aside.reason, aside.tries, aside.retry_at_ms)


def _set_aside(region: str, row: Sequence[Any]) -> SetAside:
    shard, at_ms, oid, cluster, pool, namespace, reason, tries, retry_at_ms = row
    entry = GCEntry(region, shard, at_ms, oid, cluster or "", pool or "", namespace or "")
    return SetAside(entry, reason or "unknown", tries or 1, retry_at_ms or 0)
