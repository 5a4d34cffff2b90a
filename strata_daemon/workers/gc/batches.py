"""Deletes and acks the entries of one gc pass, batch by batch: what is surely gone leaves the queue, what failed is set
aside. Acks of several batches go together, and go on while the next ones are deleted. On the thread of the pass;
`_delete` on the pool's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Pool
from strata_daemon.leader.context import RunContext
from strata_daemon.ports.chunks import ABSENT, DELETED, UNAVAILABLE, ChunkName, DeleteState, Deletion
from strata_daemon.ports.gc_queue import GCEntry, SetAside
from strata_daemon.workers.contract import Dependencies
from strata_daemon.workers.gc.set_aside import next_try
from strata_daemon.workers.gc.settings import WORKER, GCSettings
from strata_daemon.workers.gc.verification import Verification

# A partition's acks are one request, so that more entries at once cost a ring fewer of them. No later than a second
# after the deletion: what a crash leaves is deleted again, and found absent.
ACK_AT_ONCE = 2000
ACK_AFTER_S = 1.0
ACKS_UNDER_WAY = 4  # enough to keep a ring busy, and few enough to be repeated after a failure
# Few failures are spread over many partitions, and each partition costs a request.
ASIDES_AT_ONCE = 1000

# An entry's chunk. This runs for each of some hundred thousand entries a second, hence no call by name.
PLACE = itemgetter(*(GCEntry._fields.index(name) for name in ChunkName._fields))
AS_CHUNK: Callable[[tuple[str, ...]], ChunkName] = partial(tuple.__new__, ChunkName)


@dataclass(slots=True)
class Tally:
    """What a pass did; for its one log line."""

    deleted: int = 0
    absent: int = 0
    failed: int = 0


class Batches:
    """Deletes and acks batches within one pass. Used by the thread of the pass; `_delete` by the pool's."""

    def __init__(self, deps: Dependencies, settings: GCSettings, ctx: RunContext, pool: Pool, tally: Tally) -> None:
        self._deps = deps
        self._ctx = ctx
        self._pool = pool
        self._tally = tally
        self._concurrency = settings.concurrency
        # Clusters that could not be reached in this pass: their entries are not tried one by one.
        self._down: dict[str, Deletion] = {}
        # Surely gone and not acked yet: since when, and how many of them were absent.
        self._gone: list[GCEntry] = []
        self._gone_since = 0.0
        self._absent = 0
        # Acks under way: (wait for it, entries, of those absent).
        self._acks: deque[tuple[Callable[[], None], int, int]] = deque()
        self._verify = Verification(deps, settings)
        self._asides: list[SetAside] = []
        self._said: set[tuple[str, str]] = set()

    def run(self, entries: Sequence[GCEntry], tries: Mapping[GCEntry, int], now_ms: int) -> None:
        """Delete, then ack what is surely gone; what failed is set aside now or by `keep_failed`. Raises LeaseLost,
        StopRequested, StoreUnavailable."""
        answers = self._delete_all(entries)
        gone = entries
        if answers.count(DELETED) < len(entries):
            pairs = zip(entries, answers, strict=True)
            gone = [entry for entry, answer in pairs if answer.state is not DeleteState.FAILED]
        if gone:
            self._add_gone(gone, answers.count(ABSENT))
        if len(gone) < len(entries):
            pairs = zip(entries, answers, strict=True)
            self._failed([pair for pair in pairs if pair[1].state is DeleteState.FAILED], tries, now_ms)
            if len(self._asides) >= ASIDES_AT_ONCE:
                self.keep_failed()
        self._ctx.progress(len(entries))

    def _delete_all(self, entries: Sequence[GCEntry]) -> list[Deletion]:
        if not self._down:
            answers = self._delete_slices(entries)
        else:
            reachable = [entry for entry in entries if entry.cluster not in self._down]
            deleted = iter(self._delete_slices(reachable))
            answers = [self._down.get(entry.cluster) or next(deleted) for entry in entries]
        return answers

    def _delete_slices(self, entries: Sequence[GCEntry]) -> list[Deletion]:
        """At most STRATA_GC_CONCURRENCY slices at once; neighbours stay together, since they share a folder."""
        if not entries:
            return []
        size = min(self._deps.data.delete_batch, -(-len(entries) // self._concurrency))
        slices = [entries[start : start + size] for start in range(0, len(entries), size)]
        return [answer for part in self._pool.map(self._delete, slices) for answer in part]

    def _delete(self, entries: Sequence[GCEntry]) -> list[Deletion]:
        chunks = list(map(AS_CHUNK, map(PLACE, entries)))
        blocked = self._verify.blocked(chunks)
        if blocked:
            free = [chunk for chunk in chunks if chunk not in blocked]
            deleted = dict(zip(free, self._delete_free(free), strict=True))
            return [blocked.get(chunk) or deleted[chunk] for chunk in chunks]
        return self._delete_free(chunks)

    def _delete_free(self, chunks: Sequence[ChunkName]) -> list[Deletion]:
        if not chunks:
            return []
        self._ctx.check(self._deps.data.delete_time_s)
        return self._deps.data.delete(chunks)

    def _add_gone(self, gone: Sequence[GCEntry], absent: int) -> None:
        now = self._deps.runtime.now()
        if not self._gone:
            self._gone_since = now
        self._gone += gone
        self._absent += absent
        if len(self._gone) >= ACK_AT_ONCE or now - self._gone_since >= ACK_AFTER_S:
            self._begin_ack()
            self._wait_for_acks(ACKS_UNDER_WAY)

    def _begin_ack(self) -> None:
        gone, absent = self._gone, self._absent
        self._gone, self._absent = [], 0
        if gone:
            self._acks.append((self._deps.meta.gc_queue.begin_ack(gone), len(gone), absent))

    def settle(self) -> None:
        """Ack what is gone, and wait for every ack. Without the lease nothing more is written: its next holder finds
        those absent. Raises StoreUnavailable."""
        if not self._ctx.is_lost():
            self._begin_ack()
        self._wait_for_acks(0)

    def _wait_for_acks(self, under_way: int) -> None:
        """Until at most so many are under way. What is counted was acked. After one that failed no other is waited for:
        whether they come to the same end or not, the next pass acks what is left."""
        while len(self._acks) > under_way:
            wait, gone, absent = self._acks.popleft()
            try:
                wait()
            except StoreUnavailable:
                self._acks.clear()
                self._gone.clear()
                raise
            self._count(gone, absent)

    def _count(self, gone: int, absent: int) -> None:
        self._tally.deleted += gone - absent
        self._tally.absent += absent
        self._deps.metrics.gc_processed.inc(gone)
        if absent:
            self._deps.metrics.gc_terminal_acks.labels("enoent").inc(absent)

    def _failed(self, failed: Sequence[tuple[GCEntry, Deletion]], tries: Mapping[GCEntry, int], now_ms: int) -> None:
        for entry, answer in failed:
            self._asides.append(next_try(entry, answer.reason, tries.get(entry, 0), now_ms))
            self._deps.metrics.gc_failed.labels(answer.reason).inc()
            if answer.reason == UNAVAILABLE:
                self._down.setdefault(entry.cluster, answer)
            self._say_once(entry, answer)
        self._tally.failed += len(failed)

    def keep_failed(self) -> None:
        """Set aside what failed since. Raises StoreUnavailable: then the next pass meets it in the queue again."""
        asides, self._asides = self._asides, []
        if asides and self._deps.meta.gc_queue.set_aside(asides) < len(asides):
            self._say_full()

    def _say_once(self, entry: GCEntry, answer: Deletion) -> None:
        """One line a pass for each reason and cluster, with the first key as the example."""
        if (answer.reason, entry.cluster) in self._said:
            return
        self._said.add((answer.reason, entry.cluster))
        fields: dict[str, object] = {"worker": WORKER, "reason": answer.reason, "cluster": entry.cluster}
        fields |= {"oid": entry.oid[:200]}
        fields |= {"shard": entry.shard, "error": answer.detail}
        self._deps.logger.warning("gc entries set aside", extra=fields)

    def _say_full(self) -> None:
        if ("full", "") not in self._said:
            self._said.add(("full", ""))
            self._deps.logger.error(
                "gc set-aside is full", extra={"worker": WORKER, "error": "entries that fail now stay in the queue"}
            )
