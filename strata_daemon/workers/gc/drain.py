"""One gc pass over a slot's part of the queue: entries past their grace are deleted and acked, in batches.

An entry leaves the queue only when its chunk is surely gone (faults.md 59). One that fails is set aside: it neither
spins nor stops what lies behind it (defect e). Runs on the thread of the pass; reads and writes only through ports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from strata_daemon.base.errors import LeaseLost, StopRequested
from strata_daemon.base.runtime import Pool
from strata_daemon.domain.ages import ClocksDisagree, earlier
from strata_daemon.domain.sharding import slot_shards
from strata_daemon.leader.context import RunContext
from strata_daemon.ports.chunks import ABSENT, DELETED, UNAVAILABLE, ChunkName, DeleteState, Deletion
from strata_daemon.ports.gc_queue import GCEntry, SetAside
from strata_daemon.workers.contract import Dependencies
from strata_daemon.workers.gc.set_aside import next_try
from strata_daemon.workers.gc.settings import GCSettings

WORKER = "gc"

# An entry's chunk. This runs for each of some hundred thousand entries a second, hence no call by name.
PLACE = itemgetter(*(GCEntry._fields.index(name) for name in ChunkName._fields))
AS_CHUNK: Callable[[tuple[str, ...]], ChunkName] = partial(tuple.__new__, ChunkName)


@dataclass(slots=True)
class Tally:
    """What a pass did; for its one log line."""

    deleted: int = 0
    absent: int = 0
    failed: int = 0


class GCDrain:
    """The `ShardWork` of the gc fan-out. `look` runs on the fan-out's thread, `run_pass` on one a slot."""

    def __init__(self, deps: Dependencies, settings: GCSettings) -> None:
        self._deps = deps
        self._settings = settings
        self._queue = deps.meta.gc_queue
        self._log = deps.logger
        self._clocks_agree = True
        self.interval_s = settings.interval_s

    def look(self, slots: Sequence[int]) -> frozenset[int]:
        """Slots with an entry past its grace, or one set aside that is due again."""
        now_ms = self._now_ms()
        if now_ms is None:
            return frozenset()
        region, count = self._deps.region, self._settings.shards
        shards = sorted(shard for slot in slots for shard in slot_shards(slot, count))
        busy = self._queue.busy_shards(region, shards, self._cutoff_ms(now_ms))
        due = self._queue.due_set_aside(region, shards, now_ms, self._settings.batch_size)
        found = frozenset(shard % count for shard in busy) | frozenset(each.entry.shard % count for each in due)
        self._deps.metrics.worker_iterations.labels(WORKER, "success").inc(len(slots) - len(found))
        return found

    def run_pass(self, ctx: RunContext, slot: int) -> None:
        began, status = self._deps.runtime.now(), "error"
        tally = Tally()
        try:
            with self._deps.tracer.start_as_current_span("worker.gc.tick"):
                self._drain(ctx, slot, tally)
            status = "success"
        except (LeaseLost, StopRequested):
            status = "success"
            raise
        finally:
            took_s = self._deps.runtime.now() - began
            self._deps.metrics.worker_iterations.labels(WORKER, status).inc()
            self._deps.metrics.worker_tick_s.labels(WORKER).observe(took_s)
            if tally.deleted or tally.absent or tally.failed:
                self._tell(slot, tally, took_s)

    def _drain(self, ctx: RunContext, slot: int, tally: Tally) -> None:
        now_ms = self._now_ms()
        if now_ms is None:
            return
        pool = self._deps.runtime.pool(f"worker-gc-{slot}-delete", self._settings.concurrency)
        try:
            batch = _Batches(self._deps, self._settings, ctx, pool, tally)
            self._drain_queue(batch, ctx, slot, now_ms)
            self._drain_set_aside(batch, ctx, slot, now_ms)
        finally:
            pool.close()

    def _drain_queue(self, batch: _Batches, ctx: RunContext, slot: int, now_ms: int) -> None:
        """Each page lies behind the one before, whatever became of it: a pass comes to its end."""
        region, cutoff_ms = self._deps.region, self._cutoff_ms(now_ms)
        shards = self._queue.busy_shards(region, slot_shards(slot, self._settings.shards), cutoff_ms)
        after: GCEntry | None = None
        while not ctx.is_stopping():
            page = self._queue.read(region, shards, cutoff_ms, self._settings.batch_size, after)
            if not page:
                return
            batch.run(page, {}, now_ms)
            after = page[-1]

    def _drain_set_aside(self, batch: _Batches, ctx: RunContext, slot: int, now_ms: int) -> None:
        """An entry that fails again is due only later, so this ends too."""
        shards = slot_shards(slot, self._settings.shards)
        while not ctx.is_stopping():
            due = self._queue.due_set_aside(self._deps.region, shards, now_ms, self._settings.batch_size)
            if not due:
                return
            batch.run([each.entry for each in due], {each.entry: each.tries for each in due}, now_ms)

    def _now_ms(self) -> int | None:
        """The earlier of both clocks in milliseconds since 1970; None, said once, while they disagree."""
        try:
            now = earlier(self._deps.runtime.wall(), self._deps.meta.clock.wall())
        except ClocksDisagree as exc:
            self._deps.metrics.worker_iterations.labels(WORKER, "error").inc()
            if self._clocks_agree:
                self._clocks_agree = False
                self._log.error("clocks disagree", extra={"worker": WORKER, "error": str(exc)})
            return None
        if not self._clocks_agree:
            self._clocks_agree = True
            self._log.info("clocks agree again", extra={"worker": WORKER})
        return int(now.timestamp() * 1000)

    def _cutoff_ms(self, now_ms: int) -> int:
        return now_ms - int(self._settings.grace_s * 1000)

    def _tell(self, slot: int, tally: Tally, took_s: float) -> None:
        fields: dict[str, object] = {"worker": WORKER, "shard": slot, "deleted": tally.deleted, "absent": tally.absent}
        fields |= {"set_aside": tally.failed, "took_s": round(took_s, 3)}
        self._log.info("gc pass finished", extra=fields)


class _Batches:
    """Deletes and acks batches within one pass. Used by the thread of the pass; `_delete` by the pool's."""

    def __init__(self, deps: Dependencies, settings: GCSettings, ctx: RunContext, pool: Pool, tally: Tally) -> None:
        self._deps = deps
        self._ctx = ctx
        self._pool = pool
        self._tally = tally
        self._concurrency = settings.concurrency
        # Clusters that could not be reached in this pass: their entries are not tried one by one.
        self._down: dict[str, Deletion] = {}
        self._said: set[tuple[str, str]] = set()

    def run(self, entries: Sequence[GCEntry], tries: Mapping[GCEntry, int], now_ms: int) -> None:
        """Delete, then ack what is surely gone, then set aside what failed. Raises LeaseLost, StopRequested."""
        answers = self._delete_all(entries)
        gone = entries
        if answers.count(DELETED) < len(entries):
            pairs = zip(entries, answers, strict=True)
            gone = [entry for entry, answer in pairs if answer.state is not DeleteState.FAILED]
        if gone:
            self._deps.meta.gc_queue.ack(gone)
            self._count(answers, len(gone))
        if len(gone) < len(entries):
            pairs = zip(entries, answers, strict=True)
            self._set_aside([pair for pair in pairs if pair[1].state is DeleteState.FAILED], tries, now_ms)
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
        self._ctx.check(self._deps.data.delete_time_s)
        return self._deps.data.delete(list(map(AS_CHUNK, map(PLACE, entries))))

    def _count(self, answers: Sequence[Deletion], gone: int) -> None:
        absent = answers.count(ABSENT)
        self._tally.deleted += gone - absent
        self._tally.absent += absent
        self._deps.metrics.gc_processed.inc(gone)
        if absent:
            self._deps.metrics.gc_terminal_acks.labels("enoent").inc(absent)

    def _set_aside(self, failed: Sequence[tuple[GCEntry, Deletion]], tries: Mapping[GCEntry, int], now_ms: int) -> None:
        records: list[SetAside] = []
        for entry, answer in failed:
            records.append(next_try(entry, answer.reason, tries.get(entry, 0), now_ms))
            self._deps.metrics.gc_failed.labels(answer.reason).inc()
            if answer.reason == UNAVAILABLE:
                self._down.setdefault(entry.cluster, answer)
            self._say_once(entry, answer)
        self._tally.failed += len(records)
        kept = self._deps.meta.gc_queue.set_aside(records)
        if kept < len(records):
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
