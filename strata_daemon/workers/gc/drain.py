"""One gc pass over a slot's part of the queue: entries past their grace are deleted and acked, in batches.

An entry leaves the queue only when its chunk is surely gone (faults.md 59). One that fails is set aside: it neither
spins nor stops what lies behind it (defect e). Runs on the thread of the pass; reads and writes only through ports.
"""

from __future__ import annotations

from collections.abc import Sequence

from strata_daemon.base.errors import LeaseLost, StopRequested
from strata_daemon.domain.ages import ClocksDisagree, earlier
from strata_daemon.domain.sharding import slot_shards
from strata_daemon.leader.context import RunContext
from strata_daemon.workers.contract import Dependencies
from strata_daemon.workers.gc.batches import Batches, Tally
from strata_daemon.workers.gc.settings import WORKER, GCSettings

RECOUNT_S = 60.0  # within a long pass
RECOUNT_IDLE_S = 600.0  # where no pass ends, so that the age of the count tells of a node that is gone


class GCDrain:
    """The `ShardWork` of the gc fan-out. `look` runs on the fan-out's thread, `run_pass` on one a slot."""

    def __init__(self, deps: Dependencies, settings: GCSettings) -> None:
        self._deps = deps
        self._settings = settings
        self._queue = deps.meta.gc_queue
        self._log = deps.logger
        self._clocks_agree = True
        self._recounted_at = deps.runtime.now()  # of the fan-out's thread
        self.interval_s = settings.interval_s

    def look(self, slots: Sequence[int]) -> frozenset[int]:
        """Slots with an entry past its grace, or one set aside that is due again."""
        now_ms = self._now_ms()
        if now_ms is None:
            return frozenset()
        region, count = self._deps.region, self._settings.shards
        shards = sorted(shard for slot in slots for shard in slot_shards(slot, count))
        busy = set(self._queue.due_sweep(region, shards))
        known = [shard for shard in shards if shard not in busy]
        if known:
            busy.update(self._queue.busy_shards(region, known, self._cutoff_ms(now_ms)))
            due = self._queue.due_set_aside(region, known, now_ms, self._settings.batch_size)
            busy.update(each.entry.shard for each in due)
        found = frozenset(shard % count for shard in busy)
        self._deps.metrics.worker_iterations.labels(WORKER, "success").inc(len(slots) - len(found))
        now = self._deps.runtime.now()
        if known and now - self._recounted_at >= RECOUNT_IDLE_S:
            self._recounted_at = now
            self._queue.recount(region, known)
        return found

    def took(self, slot: int) -> None:
        self._queue.forget(self._deps.region, slot_shards(slot, self._settings.shards))

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
        except Exception:
            # Acks may have been lost on the way: read everything again.
            self._queue.forget(self._deps.region, slot_shards(slot, self._settings.shards))
            raise
        finally:
            took_s = self._deps.runtime.now() - began
            self._deps.metrics.worker_iterations.labels(WORKER, status).inc()
            self._deps.metrics.worker_tick_s.labels(WORKER).observe(took_s)
            if tally.deleted or tally.absent or tally.failed:
                self._tell(slot, tally, took_s)
        self._tend(ctx, slot)

    def _tend(self, ctx: RunContext, slot: int) -> None:
        """Count what is left, and mend; neither is worth a pass that failed."""
        now_ms = self._now_ms()
        if now_ms is None or ctx.is_stopping():
            return
        self._queue.recount(self._deps.region, slot_shards(slot, self._settings.shards))
        if slot == 0 and not ctx.is_stopping():
            for _ in self._queue.mend(self._deps.region, self._cutoff_ms(now_ms)):
                if ctx.is_stopping():
                    return

    def _drain(self, ctx: RunContext, slot: int, tally: Tally) -> None:
        now_ms = self._now_ms()
        if now_ms is None:
            return
        pool = self._deps.runtime.pool(f"worker-gc-{slot}-delete", self._settings.concurrency)
        try:
            batch = Batches(self._deps, self._settings, ctx, pool, tally)
            try:
                self._drain_queue(batch, ctx, slot, now_ms)
                batch.keep_failed()
                self._drain_set_aside(batch, ctx, slot, now_ms)
            finally:
                batch.settle()
        finally:
            pool.close()

    def _drain_queue(self, batch: Batches, ctx: RunContext, slot: int, now_ms: int) -> None:
        """Each page lies behind the one before, whatever became of it: a pass comes to its end."""
        region, cutoff_ms = self._deps.region, self._cutoff_ms(now_ms)
        own = slot_shards(slot, self._settings.shards)
        shards = set(self._queue.due_sweep(region, own))
        known = [shard for shard in own if shard not in shards]
        if known:
            shards.update(self._queue.busy_shards(region, known, cutoff_ms))
        if ctx.is_stopping():
            return  # each of these calls takes seconds on a busy ring, and a lease is handed over only after the last
        counted_at = self._deps.runtime.now()
        for page in self._queue.pages(region, sorted(shards), cutoff_ms, self._settings.batch_size):
            batch.run(page, {}, now_ms)
            if ctx.is_stopping():
                break
            if self._deps.runtime.now() - counted_at >= RECOUNT_S:
                self._queue.recount(region, own)
                counted_at = self._deps.runtime.now()

    def _drain_set_aside(self, batch: Batches, ctx: RunContext, slot: int, now_ms: int) -> None:
        """An entry that fails again is due only later, so this ends too."""
        shards = slot_shards(slot, self._settings.shards)
        while not ctx.is_stopping():
            due = self._queue.due_set_aside(self._deps.region, shards, now_ms, self._settings.batch_size)
            if not due:
                return
            batch.run([each.entry for each in due], {each.entry: each.tries for each in due}, now_ms)
            batch.keep_failed()
            batch.settle()

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
