"""A runner that holds many shard leases of one worker and runs a pass for each that has work.

One thread, `worker-<name>`, owns every slot: it takes free leases up to its fair share, gives a surplus away, and
starts passes. A slot without a pass costs no thread. It does not renew (the timer does), and one shard's crash or
hang stays that shard's: each has its own guard, pace and thread while its pass runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Event, Latch, Runtime, Stopping, Thread, WakingQueue
from strata_daemon.leader.context import LeasedContext, RunContext
from strata_daemon.leader.cycle import Guard
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.membership import Membership
from strata_daemon.leader.pace import Ending, Leg, Pace
from strata_daemon.leader.session import Locker
from strata_daemon.leader.share import BEYOND_WAIT_S, KEPT_S, STABLE_S, quota, rank_wait_s, surplus
from strata_daemon.leader.term import Phase
from strata_daemon.leader.watch import Free

LANES = 16  # passes at once: enough to keep a store busy, and one that hangs leaves fifteen
LOOK_AGAIN_S = 5.0  # after a look that failed
MEMBERS_S = 2.0  # how often the nodes are compared with the share; they are read each 5 s
TURN_S = 0.5  # the shortest wait that is worth another turn while leases wait for their time


class ShardWork(Protocol):
    """What a fan-out works on. `interval_s`: the pause between passes of a slot."""

    interval_s: float

    def look(self, slots: Sequence[int]) -> frozenset[int]:
        """Which of these held slots have work now; one cheap read for all. May raise StoreUnavailable."""
        ...

    def run_pass(self, ctx: RunContext, slot: int) -> None:
        """One pass over the work of a slot; returns early when `ctx` says so, at the next batch boundary."""
        ...


@dataclass(frozen=True, slots=True)
class FanoutParts:
    """What a fan-out works with. Slot i holds the lease `<worker>-leader-<i>`."""

    worker: str
    slots: int
    runtime: Runtime
    locker: Locker
    emit: Callable[[str, bool], None]
    members: Callable[[], Membership]
    stopping: Stopping
    metrics: Metrics
    log: logging.LoggerAdapter[logging.Logger]

    def lease(self, slot: int) -> str:
        return f"{self.worker}-leader-{slot}"


class Stage(Enum):
    FREE = "free"
    TRYING = "trying"
    HELD = "held"
    LEAVING = "leaving"  # the pass is told to return; released as soon as it has
    RELEASING = "releasing"


@dataclass(slots=True)
class Slot:
    """Owned by the fan-out's thread. Instants are runtime seconds."""

    index: int
    lease: str
    stop: Latch
    stage: Stage = Stage.FREE
    handle: TermHandle | None = None
    thread: Thread | None = None
    pace: Pace = field(default_factory=Pace)
    rests_until: float = 0.0
    next_pass_at: float = 0.0
    kept_until: float = 0.0
    is_surplus: bool = False
    passes: int = 0


class Fanout:
    """The runner. `run` returns when every slot has been released."""

    def __init__(self, parts: FanoutParts, work: ShardWork) -> None:
        self._parts = parts
        self._work = work
        self._runtime = parts.runtime
        self._guard = Guard(parts.runtime, parts.metrics, parts.log, parts.worker)
        self._wake: Event = parts.runtime.event()
        # Holds at most one item a running pass.
        self._results: WakingQueue[tuple[Slot, Leg]] = parts.runtime.queue(self._wake)
        self._candidacy = parts.locker.candidacy(parts.worker, self._wake)
        self._slots = [Slot(i, parts.lease(i), Latch(parts.runtime.event())) for i in range(parts.slots)]
        self._by_lease = {slot.lease: slot for slot in self._slots}
        self._leads = False
        self._look_failed = False
        self._running: tuple[str, ...] = ()
        self._running_since = 0.0
        self._left: dict[str, float] = {}

    def run(self, ctx: RunContext) -> None:
        give_up_at = self._runtime.now() + self._parts.locker.poll_s if ctx.once else None
        self._parts.stopping.subscribe(self._wake)
        try:
            while not ctx.is_stopping():
                self._turn(ctx, give_up_at)
                if give_up_at is not None and self._is_finished(give_up_at):
                    break
                self._wait(give_up_at)
        finally:
            self._wind_down()
            self._parts.stopping.unsubscribe(self._wake)
        if give_up_at is not None:
            self._tell_missed()

    def _turn(self, ctx: RunContext, give_up_at: float | None) -> None:
        now = self._runtime.now()
        self._settle(now)
        running, me = self._membership(now)
        if give_up_at is None:
            self._give_up_surplus(running, me, now)
        if give_up_at is None or now < give_up_at:
            self._acquire(running, me, now)
        self._start_passes(ctx, now)

    # -- what became of attempts, terms and passes

    def _settle(self, now: float) -> None:
        for slot, leg in self._results.drain():
            self._passed(slot, leg, now)
        for slot in self._slots:
            if slot.handle is None:
                continue
            phase = slot.handle.view().phase
            if phase is Phase.ENDED:
                slot.stage, slot.handle = Stage.FREE, None
            elif slot.stage is Stage.TRYING and phase is Phase.HELD:
                self._took(slot, now)
            elif slot.stage in (Stage.TRYING, Stage.HELD) and phase is Phase.LOST:
                self._lost(slot, now)

    def _took(self, slot: Slot, now: float) -> None:
        slot.stage = Stage.HELD
        slot.next_pass_at = now
        slot.stop = Latch(self._runtime.event())
        if not self._leads:
            self._leads = True
            self._parts.emit(self._parts.worker, True)

    def _lost(self, slot: Slot, now: float) -> None:
        """Contended for again at once, but not before its old pass has returned."""
        poll_s = self._parts.locker.poll_s * (0.5 + self._runtime.random())
        leg = Leg(Ending.LOST, 0.0)
        slot.pace, pause_s = slot.pace.after(leg, now, self._parts.locker.timing.ttl_s, poll_s)
        slot.rests_until = now + pause_s
        self._leave(slot)

    def _passed(self, slot: Slot, leg: Leg, now: float) -> None:
        slot.thread = None
        slot.passes += 1
        if leg.ending is Ending.CRASHED:
            slot.pace, pause_s = slot.pace.after(leg, now, self._parts.locker.timing.ttl_s, 0.0)
            slot.rests_until = now + pause_s
            fields = {"worker": self._parts.worker, "shard": slot.index, "pause_s": pause_s}
            self._parts.log.warning("shard backing off", extra=fields)
            self._leave(slot)
        elif slot.stage is Stage.LEAVING:
            self._release(slot)
        else:
            slot.next_pass_at = now + self._work.interval_s

    def _leave(self, slot: Slot, *, is_surplus: bool = False) -> None:
        """Give a slot back: its pass first, then the chip, then the lease."""
        slot.is_surplus = is_surplus
        slot.stage = Stage.LEAVING
        slot.stop.set()
        if self._leads and not any(each.stage is Stage.HELD for each in self._slots):
            self._leads = False
            self._parts.emit(self._parts.worker, False)
        if slot.thread is None:
            self._release(slot)

    def _release(self, slot: Slot) -> None:
        slot.stage = Stage.RELEASING
        if slot.handle is not None:
            self._parts.locker.leave(slot.handle, surplus=slot.is_surplus)

    # -- whose turn it is

    def _membership(self, now: float) -> tuple[tuple[str, ...], str]:
        """The nodes that share the slots, and this node. One that left is out until it has written its row again."""
        members = self._parts.members()
        for node, left_at in list(self._left.items()):
            if members.written_at.get(node, left_at) > left_at:
                del self._left[node]
        running = members.running(self._parts.worker, frozenset(self._left))
        if running != self._running:
            self._running, self._running_since = running, now
        return running, members.me

    def _give_up_surplus(self, running: tuple[str, ...], me: str, now: float) -> None:
        if len(running) < 2 or now - self._running_since < STABLE_S:
            return
        held = {slot.index: slot.kept_until for slot in self._slots if slot.stage is Stage.HELD}
        is_busy = {slot.index: slot.thread is not None for slot in self._slots}
        for index in surplus(self._parts.slots, running, me, held, now, is_busy):
            self._leave(self._slots[index], is_surplus=True)

    def _acquire(self, running: tuple[str, ...], me: str, now: float) -> None:
        open_slots = [slot for slot in self._slots if slot.stage is Stage.FREE and now >= slot.rests_until]
        self._candidacy.want(slot.lease for slot in open_slots)
        taken = sum(slot.stage in (Stage.TRYING, Stage.HELD) for slot in self._slots)
        share = quota(self._parts.slots, running, me)
        rank_s = rank_wait_s(running, me)
        for free in self._candidacy.free():
            slot = self._by_lease[free.lease]
            if slot.stage is not Stage.FREE or now < slot.rests_until:
                continue
            self._note_leaver(free, me)
            if now < _turn_at(free, rank_s, taken < share):
                continue
            slot.handle = self._candidacy.request_acquire(slot.lease)
            slot.stage = Stage.TRYING
            slot.kept_until = now + KEPT_S if taken >= share else 0.0
            taken += 1

    def _note_leaver(self, free: Free, me: str) -> None:
        """Whoever let a lease go, but as a surplus, is about to be gone: others need not wait for its rank."""
        if free.left_by and free.left_by != me and not free.reserved_until:
            self._left.setdefault(free.left_by, free.since)

    # -- passes

    def _start_passes(self, ctx: RunContext, now: float) -> None:
        due = [slot for slot in self._slots if self._is_due(slot, now, once=ctx.once)]
        lanes = self._free_lanes()
        if not due or lanes <= 0:
            return
        busy = self._look(due, now)
        if busy is None:
            return
        for slot in due:
            if slot.index not in busy:
                slot.passes += 1
                slot.next_pass_at = now + self._work.interval_s
        waiting = sorted((slot for slot in due if slot.index in busy), key=lambda slot: slot.next_pass_at)
        for slot in waiting[:lanes]:
            self._start_pass(ctx, slot)

    def _free_lanes(self) -> int:
        return LANES - sum(slot.thread is not None for slot in self._slots)

    def _is_due(self, slot: Slot, now: float, *, once: bool) -> bool:
        if slot.stage is not Stage.HELD or slot.thread is not None or now < slot.next_pass_at:
            return False
        return not (once and slot.passes)

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

    def _start_pass(self, ctx: RunContext, slot: Slot) -> None:
        handle = slot.handle
        if handle is None:
            return
        shard = LeasedContext(self._runtime, handle, slot.stop, once=ctx.once, on_progress=ctx.progress)

        def body() -> None:
            work = _ShardPass(self._work, slot.index)
            leg = self._guard.run(str(slot.index), shard, lambda: work, lambda: None)
            shard.close()
            self._results.put((slot, leg))

        slot.thread = self._runtime.spawn(f"worker-{self._parts.worker}-{slot.index}", body)

    # -- waiting and the end

    def _wait(self, give_up_at: float | None) -> None:
        now = self._runtime.now()
        wait_s = MEMBERS_S
        is_full = self._free_lanes() <= 0
        for slot in self._slots:
            if slot.stage is Stage.HELD and slot.thread is None and not is_full:
                wait_s = min(wait_s, slot.next_pass_at - now)
            elif slot.stage is Stage.FREE and slot.rests_until > now:
                wait_s = min(wait_s, slot.rests_until - now)
        if give_up_at is not None or any(
            self._by_lease[each.lease].stage is Stage.FREE for each in self._candidacy.free()
        ):
            wait_s = min(wait_s, TURN_S)
        self._wake.wait(max(0.01, wait_s))
        self._wake.clear()

    def _is_finished(self, give_up_at: float) -> bool:
        """With `once`: every slot has had its pass, or could not be had in time."""
        late = self._runtime.now() >= give_up_at
        return all(slot.passes or (late and slot.stage is Stage.FREE) for slot in self._slots)

    def _tell_missed(self) -> None:
        missed = [slot.lease for slot in self._slots if not slot.passes]
        for lease in missed:
            self._parts.log.warning("lease not obtained", extra={"worker": self._parts.worker, "lease": lease})

    def _wind_down(self) -> None:
        """Tell every pass to return, and release each slot as soon as its own has. The owner of the process bounds
        this wait: a pass that never returns keeps its lease unreleased (faults.md 3)."""
        self._candidacy.close()
        for slot in self._slots:
            slot.stop.set()
        if self._leads:
            self._leads = False
            self._parts.emit(self._parts.worker, False)
        while any(slot.handle is not None for slot in self._slots):
            for slot in self._slots:
                if slot.handle is not None and slot.thread is None and slot.stage is not Stage.RELEASING:
                    self._release(slot)
            self._wake.wait(TURN_S)
            self._wake.clear()
            for slot, _ in self._results.drain():
                slot.thread = None
                slot.passes += 1
            for slot in self._slots:
                if slot.handle is not None and slot.handle.ended.is_set():
                    slot.stage, slot.handle = Stage.FREE, None


def _turn_at(free: Free, rank_s: float, is_below_share: bool) -> float:
    """When a free lease may be tried for: below the share by rank; else after those below theirs had their chance."""
    turn_at = free.since + rank_s
    return turn_at if is_below_share else max(turn_at + BEYOND_WAIT_S, free.reserved_until)


@dataclass(frozen=True, slots=True)
class _ShardPass:
    """A pass as something that the guard can run."""

    work: ShardWork
    slot: int

    def run(self, ctx: RunContext) -> None:
        self.work.run_pass(ctx, self.slot)
