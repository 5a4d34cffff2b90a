"""A runner that holds many shard leases of one worker and runs a pass for each that has work.

One thread, `worker-<name>`, owns every slot: it takes free leases up to its fair share, gives a surplus away, and
starts passes. A slot without a pass costs no thread. It does not renew (the timer does), and one shard's crash or
hang stays that shard's: each has its own guard, pace and thread while its pass runs.
"""

from __future__ import annotations

import math

from strata_daemon.base.runtime import Event, Latch, WakingQueue
from strata_daemon.leader.context import RunContext
from strata_daemon.leader.pace import Ending, Leg, next_pass
from strata_daemon.leader.passes import LOOK_AGAIN_S, Passes
from strata_daemon.leader.share import BEYOND_WAIT_S, KEPT_S, STABLE_S, quota, rank_wait_s, surplus
from strata_daemon.leader.slots import FanoutParts, ShardWork, Slot, Stage
from strata_daemon.leader.term import Phase
from strata_daemon.leader.watch import Free

MEMBERS_S = 2.0  # how often the nodes are compared with the share; they are read each 5 s
# Conditional statements cost a ring most of all: a thousand attempts at once would only time each other out.
AT_ONCE = 128
TURN_S = 0.5  # between looks at what is wound down, or at the end of `run --once`


class Fanout:
    """The runner. `run` returns when every slot has been released."""

    def __init__(self, parts: FanoutParts, work: ShardWork) -> None:
        self._parts = parts
        self._work = work
        self._runtime = parts.runtime
        self._wake: Event = parts.runtime.event()
        # Holds at most one item a running pass.
        self._results: WakingQueue[tuple[Slot, Leg]] = parts.runtime.queue(self._wake)
        self._candidacy = parts.locker.candidacy(parts.worker, self._wake)
        self._slots = [Slot(i, parts.lease(i), Latch(parts.runtime.event())) for i in range(parts.slots)]
        self._passes = Passes(parts, work, self._slots, self._results)
        self._by_lease = {slot.lease: slot for slot in self._slots}
        self._leads = False
        self._turn_at = math.inf  # when the soonest of the leases that look free may be tried for
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
        self._passes.start_due(ctx, now)

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
            elif slot.stage is Stage.LEAVING and slot.thread is None:
                self._release(slot)
            elif slot.stage is Stage.TRYING and phase is Phase.HELD:
                self._took(slot, now)
            elif slot.stage in (Stage.TRYING, Stage.HELD) and phase is Phase.LOST:
                self._lost(slot, now)

    def _took(self, slot: Slot, now: float) -> None:
        slot.stage = Stage.HELD
        slot.next_pass_at = now
        self._work.took(slot.index)
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
        if leg.ending is not Ending.UNANSWERED:
            slot.unanswered_since = None
        if leg.ending is Ending.CRASHED:
            slot.pace, pause_s = slot.pace.after(leg, now, self._parts.locker.timing.ttl_s, 0.0)
            slot.rests_until = now + pause_s
            fields = {"worker": self._parts.worker, "shard": slot.index, "pause_s": pause_s}
            self._parts.log.warning("shard backing off", extra=fields)
            self._leave(slot)
        elif slot.stage is Stage.LEAVING:
            self._release(slot)
        elif leg.ending is Ending.LOST:
            self._lost(slot, now)  # by the pass's own clock, or its effect fits no validity: given back all the same
        elif leg.ending is Ending.UNANSWERED:
            slot.unanswered_since = slot.unanswered_since or now
            slot.next_pass_at = now + LOOK_AGAIN_S
        else:
            slot.next_pass_at = next_pass(now, self._work.interval_s)

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
        """Now, or as soon as fewer are on their way."""
        if self._count(Stage.RELEASING) >= AT_ONCE:
            slot.stage = Stage.LEAVING
            return
        slot.stage = Stage.RELEASING
        if slot.handle is not None:
            self._parts.locker.leave(slot.handle, surplus=slot.is_surplus)

    # -- whose turn it is

    def _membership(self, now: float) -> tuple[tuple[str, ...], str]:
        """The nodes that share the slots, and this node. One that left is out until it has written its row again."""
        members = self._parts.members()
        for free in self._candidacy.free():
            # Whoever let a lease go, but as a surplus, is about to be gone: nobody waits for its share or its rank.
            if free.left_by and free.left_by != members.me and not free.reserved_until:
                self._left.setdefault(free.left_by, free.since)
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
        self._turn_at = math.inf
        trying = self._count(Stage.TRYING)
        for free in self._candidacy.free():
            slot = self._by_lease[free.lease]
            if slot.stage is not Stage.FREE or now < slot.rests_until:
                continue
            if trying >= AT_ONCE:
                break  # the end of an attempt wakes this thread
            turn_at = _turn_at(free, rank_s, taken < share)
            if now < turn_at:
                self._turn_at = min(self._turn_at, turn_at)
                continue
            slot.handle = self._candidacy.request_acquire(slot.lease)
            slot.stage = Stage.TRYING
            slot.kept_until = now + KEPT_S if taken >= share else 0.0
            taken += 1
            trying += 1

    def _count(self, stage: Stage) -> int:
        return sum(slot.stage is stage for slot in self._slots)

    # -- waiting and the end

    def _wait(self, give_up_at: float | None) -> None:
        now = self._runtime.now()
        wait_s = MEMBERS_S
        is_full = self._passes.free_lanes() <= 0
        for slot in self._slots:
            if slot.stage is Stage.HELD and slot.thread is None and not is_full:
                wait_s = min(wait_s, slot.next_pass_at - now)
            elif slot.stage is Stage.FREE and slot.rests_until > now:
                wait_s = min(wait_s, slot.rests_until - now)
        wait_s = min(wait_s, self._turn_at - now)
        if give_up_at is not None:
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
