"""How much waits in the gc queue: counted by whoever works on a shard, kept in our keyspace, read by everybody.

Exact up to 10,000 entries a shard, then "at least". A count reads keys, so each refresh has a bound on the rows that it
reads; what is over counts as at least what was seen. Entries set aside are counted apart, by reason.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from strata_daemon.base import log
from strata_daemon.ports.gc_queue import QueueDepth
from strata_daemon.stores.cassandra.gc_floors import START_MS
from strata_daemon.stores.cassandra.gc_shelf import SHARDS, Shelf
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import COUNT_SHARD, IN_MAX, READ_DEPTH, SHARD_FIRSTS, WRITE_DEPTH

FIRST_LIMIT = 500
EXACT_MAX = 10_000
ROWS_A_REFRESH = 200_000
ROWS_A_BATCH = 256
STRANGERS_S = 300.0  # shards that nobody of ours works on are counted by the one who asks, this seldom
FUTURE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _Count:
    entries: int
    is_at_least: bool
    oldest_ms: int | None


NOTHING = _Count(0, False, None)


class DepthRows:
    """Thread-safe. `_said` holds the shards whose entries of the future were said."""

    def __init__(self, ring: Ring, shelf: Shelf) -> None:
        self._ring = ring
        self._shelf = shelf
        self._lock = threading.Lock()  # guards _strangers and _said
        self._strangers: dict[str, tuple[float, dict[int, _Count]]] = {}
        self._said: set[tuple[str, int]] = set()

    def refresh(self, region: str, starts: Mapping[int, int]) -> None:
        """Count shards of this process, each from its floor on (milliseconds), and write their rows."""
        counts = self._count(region, starts)
        now_ms = self._now_ms()
        rows = []
        for shard, count in counts.items():
            aside = msgspec.json.encode(self._shelf.counts(region, shard)).decode()
            rows.append((region, shard, count.entries, count.is_at_least, count.oldest_ms, aside, now_ms))
        self._ring.gather(
            [
                self._ring.batch([(WRITE_DEPTH, row) for row in rows[start : start + ROWS_A_BATCH]])
                for start in range(0, len(rows), ROWS_A_BATCH)
            ]
        )

    def read(self, region: str) -> QueueDepth:
        """The whole region. Raises StoreUnavailable."""
        known: dict[int, _Count] = {}
        aside: Counter[str] = Counter()
        counted_ms: int | None = None
        for shard, entries, is_at_least, oldest_ms, text, at_ms in self._ring.read(READ_DEPTH, (region,)):
            known[shard] = _Count(entries or 0, bool(is_at_least), oldest_ms)
            aside.update(msgspec.json.decode(text or "{}", type=dict[str, int]))
            counted_ms = at_ms if counted_ms is None else min(counted_ms, at_ms or 0)
        missing = [shard for shard in range(SHARDS) if shard not in known]
        if missing:
            known |= self._strangers_of(region, missing)
        oldest = min((count.oldest_ms for count in known.values() if count.oldest_ms is not None), default=None)
        return QueueDepth(
            entries=sum(count.entries for count in known.values()),
            oldest_ms=oldest,
            set_aside={reason: number for reason, number in aside.items() if number},
            is_at_least=any(count.is_at_least for count in known.values()),
            counted_ms=counted_ms,
        )

    def _strangers_of(self, region: str, shards: Sequence[int]) -> dict[int, _Count]:
        now = self._ring.runtime.now()
        with self._lock:
            counted_at, counts = self._strangers.get(region, (float("-inf"), {}))
        if now - counted_at >= STRANGERS_S or not counts.keys() >= set(shards):
            counts = self._count(region, dict.fromkeys(shards, START_MS))
            with self._lock:
                self._strangers[region] = (now, counts)
        return {shard: counts[shard] for shard in shards}

    def _count(self, region: str, starts: Mapping[int, int]) -> dict[int, _Count]:
        counts = dict.fromkeys(starts, NOTHING)
        filled = self._filled(region, starts)
        self._count_up_to(region, {shard: starts[shard] for shard in filled}, FIRST_LIMIT, counts)
        budget = ROWS_A_REFRESH - sum(count.entries for count in counts.values())
        more = {shard: starts[shard] for shard in filled if counts[shard].is_at_least}
        while more and budget > 0:
            part = dict(list(more.items())[: max(1, budget // EXACT_MAX)])
            self._count_up_to(region, part, EXACT_MAX, counts)
            budget -= sum(counts[shard].entries for shard in part)
            more = {shard: start_ms for shard, start_ms in more.items() if shard not in part}
        return counts

    def _filled(self, region: str, starts: Mapping[int, int]) -> list[int]:
        shards = list(starts)
        groups = [shards[start : start + IN_MAX] for start in range(0, len(shards), IN_MAX)]
        requests = [
            self._ring.bind(SHARD_FIRSTS, (region, group, min(starts[shard] for shard in group), 1)) for group in groups
        ]
        return sorted({row[0] for rows in self._ring.gather(requests) for row in rows})

    def _count_up_to(self, region: str, starts: Mapping[int, int], limit: int, counts: dict[int, _Count]) -> None:
        requests = [self._ring.bind(COUNT_SHARD, (region, shard, at, limit + 1)) for shard, at in starts.items()]
        for shard, rows in zip(starts, self._ring.gather(requests, in_flight=32), strict=True):
            keys = {(at_ms, oid) for at_ms, oid in rows} - self._shelf.keys(region, shard)
            oldest_ms = min((at_ms for at_ms, _ in keys), default=None)
            counts[shard] = _Count(min(len(keys), limit), len(rows) > limit, oldest_ms)
            self._tell_future(region, shard, max((at_ms for at_ms, _ in keys), default=0))

    def _tell_future(self, region: str, shard: int, newest_ms: int) -> None:
        """Entries of the future wait until it comes; that a clock was wrong when they were queued is worth a line."""
        if newest_ms < self._now_ms() + FUTURE_MS:
            return
        with self._lock:
            if (region, shard) in self._said:
                return
            self._said.add((region, shard))
        fields = {"region": region, "shard": shard, "enqueued_at_ms": newest_ms}
        log.logger("gc").warning("gc entry enqueued in the future", extra=fields)

    def _now_ms(self) -> int:
        return int(self._ring.runtime.wall().timestamp() * 1000)
