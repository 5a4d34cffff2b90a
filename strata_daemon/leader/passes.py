"""Starts the passes of a fan-out's slots: one look for all that are due, a thread for each that has work.

Called on the fan-out's thread. A pass runs under a guard on a thread of its own, which ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import WakingQueue
from strata_daemon.leader.context import LeasedContext, RunContext
from strata_daemon.leader.cycle import Guard
from strata_daemon.leader.pace import Ending, Leg, next_pass
from strata_daemon.leader.slots import FanoutParts, ShardWork, Slot, Stage

LANES = 16  # passes at once: enough to keep a store busy, and one that hangs leaves fifteen
LOOK_AGAIN_S = 5.0  # after a look or a pass that failed
# An outage that a lease outlives must not cost it; passes that fail for longer than that end as a crash.
UNANSWERED_S = 30.0


class Passes:
    """`results` receives what became of each pass; it holds at most one item a running pass."""

    def __init__(
        self, parts: FanoutParts, work: ShardWork, slots: Sequence[Slot], results: WakingQueue[tuple[Slot, Leg]]
    ) -> None:
        self._parts = parts
        self._work = work
        self._slots = slots
        self._results = results
        self._guard = Guard(parts.runtime, parts.metrics, parts.log, parts.worker)
        self._look_failed = False

    def start_due(self, ctx: RunContext, now: float) -> None:
        """Look once for every slot that is due, and start a pass for those with work, as lanes allow."""
        due = [slot for slot in self._slots if _is_due(slot, now, once=ctx.once)]
        lanes = self.free_lanes()
        if not due or lanes <= 0:
            return
        busy = self._look(due, now)
        if busy is None:
            return
        for slot in due:
            if slot.index not in busy:
                slot.passes += 1
                slot.next_pass_at = next_pass(now, self._work.interval_s)
        waiting = sorted((slot for slot in due if slot.index in busy), key=lambda slot: slot.next_pass_at)
        for slot in waiting[:lanes]:
            self._start(ctx, slot)

    def free_lanes(self) -> int:
        return LANES - sum(slot.thread is not None for slot in self._slots)

    def _look(self, due: list[Slot], now: float) -> frozenset[int] | None:
        """Which slots have work; a look that fails is repeated soon, and no slot is taken as idle for it."""
        try:
            busy = self._work.look([slot.index for slot in due])
        except StoreUnavailable as exc:
            if not self._look_failed:
                self._look_failed = True
                self._parts.log.error("queue look failed", extra={"worker": self._parts.worker, "error": str(exc)})
            self._parts.metrics.worker_iterations.labels(self._parts.worker, "error").inc()
            for slot in due:
                slot.next_pass_at = now + LOOK_AGAIN_S
            return None
        if self._look_failed:
            self._look_failed = False
            self._parts.log.info("queue look works again", extra={"worker": self._parts.worker})
        return busy

    def _start(self, ctx: RunContext, slot: Slot) -> None:
        handle = slot.handle
        if handle is None:
            return
        shard = LeasedContext(self._parts.runtime, handle, slot.stop, once=ctx.once, on_progress=ctx.progress)

        def body() -> None:
            work = _ShardPass(self._work, slot.index, is_patient)
            leg = self._guard.run(str(slot.index), shard, lambda: work, lambda: None)
            shard.close()
            if work.failure is not None and leg.ending is Ending.RETURNED:
                fields = {"worker": self._parts.worker, "shard": slot.index, "error": str(work.failure)}
                self._parts.log.warning("pass failed", extra=fields)
                leg = replace(leg, ending=Ending.UNANSWERED)
            self._results.put((slot, leg))

        since = slot.unanswered_since
        is_patient = not ctx.once and (since is None or self._parts.runtime.now() - since < UNANSWERED_S)
        slot.thread = self._parts.runtime.spawn(f"worker-{self._parts.worker}-{slot.index}", body)


def _is_due(slot: Slot, now: float, *, once: bool) -> bool:
    if slot.stage is not Stage.HELD or slot.thread is not None or now < slot.next_pass_at:
        return False
    return not (once and slot.passes)


@dataclass(slots=True)
class _ShardPass:
    """A pass as something that the guard can run. `is_patient`: that its store does not answer is no crash yet."""

    work: ShardWork
    slot: int
    is_patient: bool
    failure: StoreUnavailable | None = None

    def run(self, ctx: RunContext) -> None:
        try:
            self.work.run_pass(ctx, self.slot)
        except StoreUnavailable as exc:
            if not self.is_patient:
                raise
            self.failure = exc
