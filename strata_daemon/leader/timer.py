"""The one timer thread: keeps every lease of the process and the watch for candidates.

It owns every `Term`; others put commands into its queue and read `TermHandle`s. It never waits for a store: requests
go out as batches, answers come back through the queue, so a slow answer delays nobody else. It does not decide who
should hold what (`fanout`, `cycle`), and it cannot stop a runner, only tell it.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Event, Runtime, Thread, WakingQueue
from strata_daemon.leader.candidacy import Candidacy, Want
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.journal import TermJournal
from strata_daemon.leader.last_resort import LastResort
from strata_daemon.leader.orphans import Orphans
from strata_daemon.leader.store import (
    Answer,
    Draw,
    Insert,
    LeaseRows,
    LeaseStore,
    Outcome,
    Release,
    Reply,
    Request,
    Signal,
    SignalRows,
)
from strata_daemon.leader.term import (
    OTHER_HOLDER,
    RELEASE_UNKNOWN,
    Leave,
    Phase,
    Retime,
    Step,
    Term,
    Tick,
    begin,
    next_at,
    step,
)
from strata_daemon.leader.timing import Timing
from strata_daemon.leader.watch import Watch

Logger = logging.LoggerAdapter[logging.Logger]

EARLY_PART = 0.5  # of the period: leases taken together spread their renewals over it from the first one on
RENEW_GRAIN_S = 0.1  # renewals due within this time go out as one batch


@dataclass(frozen=True, slots=True)
class _Begin:
    handle: TermHandle


@dataclass(frozen=True, slots=True)
class _Leave:
    handle: TermHandle
    wait_s: float
    surplus: bool


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Item = _Begin | _Leave | _Stop | Want | Reply


@dataclass(slots=True)
class _Entry:
    handle: TermHandle
    term: Term
    surplus: bool = False
    wake_at: float = 0.0


class LeaseTimer:
    """Owner of all terms. Every attribute is the timer thread's, but for `_queue`, the beat and `_handles`.

    `node_id` names this node in holders and signals; it may change while the process runs.
    """

    def __init__(
        self,
        runtime: Runtime,
        store: LeaseStore,
        timing: Timing,
        *,
        poll_s: float,
        shutdown_wait_s: float,
        node_id: Callable[[], str],
        metrics: Metrics,
        log: Logger,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._timing = replace(timing, allowance=store.allowance())
        self._node_id = node_id
        self._journal = TermJournal(metrics, log)
        self._last_resort = LastResort(runtime, shutdown_wait_s + timing.ttl_s)
        self._queue: WakingQueue[_Item] = runtime.queue()
        self._watch = Watch(poll_s, runtime.random)
        self._candidacies: list[Candidacy] = []
        self._is_free_stale = False
        self._entries: dict[str, _Entry] = {}
        self._by_handle: dict[TermHandle, _Entry] = {}
        self._lock = threading.Lock()  # guards _handles
        self._handles: dict[TermHandle, None] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._fences: dict[str, int] = {}
        self._orphans = Orphans()
        self._out: list[Request] = []
        self._stopping = False
        self._beat_at = runtime.now()
        self._thread: Thread | None = None

    # -- for other threads

    def start(self) -> None:
        self._thread = self._runtime.spawn("lease-timer", self._run)

    def request_stop(self) -> None:
        """Stop once no term is left; terms that nobody released are left to their TTL at `join`."""
        self._queue.put(_Stop())

    def join(self, timeout_s: float) -> bool:
        return self._thread is None or self._thread.join(timeout_s)

    @property
    def thread(self) -> Thread | None:
        return self._thread

    @property
    def beat_at(self) -> float:
        """The instant of the last turn; a float that one thread writes and others only show."""
        return self._beat_at

    @property
    def timing(self) -> Timing:
        """With the allowance in force; for display."""
        return self._timing

    def handles(self) -> list[TermHandle]:
        """Every attempt and term that has not ended, for whoever looks."""
        with self._lock:
            return list(self._handles)

    def candidacy(self, worker: str, wake: Event) -> Candidacy:
        return Candidacy(self._runtime, worker, wake, self._queue.put, self._put_begin)

    def leave(self, handle: TermHandle, wait_s: float, *, surplus: bool = False) -> None:
        """Release a term whose runner has returned (or never entered), repeating for at most `wait_s` seconds."""
        self._queue.put(_Leave(handle, wait_s, surplus))

    def _put_begin(self, handle: TermHandle) -> None:
        self._queue.put(_Begin(handle))

    # -- the thread

    def _run(self) -> None:
        try:
            while not (self._stopping and not self._entries):
                wait_s = max(0.0, self._wake_at() - self._runtime.now())
                self._queue.wake.wait(wait_s)
                self._queue.wake.clear()
                self.turn()
        finally:
            self._last_resort.call_off()

    def _wake_at(self) -> float:
        term_at = self._heap[0][0] if self._heap else float("inf")
        return min(self._watch.next_at(), max(term_at, self._beat_at + RENEW_GRAIN_S))

    def turn(self) -> None:
        """Take in what came, let time act on every term that is due, send what follows as one batch."""
        now = self._beat_at = self._runtime.now()
        self._retime(now)
        for item in self._queue.drain():
            self._take(item, now)
        while self._heap and self._heap[0][0] <= now:
            _, _, holder = heapq.heappop(self._heap)
            entry = self._entries.get(holder)
            if entry is not None and entry.wake_at <= now:
                self._advance(entry, step(entry.term, Tick(), now), now)
        if self._is_free_stale:
            self._publish_free()
        self._out.extend(self._watch.due(now))
        if self._out:
            requests, self._out = self._out, []
            self._store.submit(requests, self._deliver)
        self._last_resort.keep(now, is_needed=bool(self._entries))

    def _deliver(self, replies: Sequence[Reply]) -> None:
        """Called on a thread of the store's: hands over and returns."""
        self._queue.put_all(replies)

    def _retime(self, now: float) -> None:
        allowance = self._store.allowance()
        if allowance == self._timing.allowance:
            return
        self._timing = replace(self._timing, allowance=allowance)
        for entry in list(self._entries.values()):
            self._advance(entry, step(entry.term, Retime(self._timing), now), now)

    def _take(self, item: _Item, now: float) -> None:
        match item:
            case _Begin():
                self._begin(item.handle, now)
            case _Leave():
                entry = self._by_handle.get(item.handle)
                if entry is not None:
                    entry.surplus = item.surplus
                    self._advance(entry, step(entry.term, Leave(now + item.wait_s), now), now)
            case Answer():
                self._answered(item, now)
            case LeaseRows():
                self._rows(item, now)
            case SignalRows():
                self._is_free_stale |= self._watch.on_signals(item, now)
            case Want():
                self._want(item, now)
            case _Stop():
                self._stopping = True

    def _begin(self, handle: TermHandle, now: float) -> None:
        holder = f"{self._node_id()}/{os.getpid()}/{uuid4()}"
        early_s = self._runtime.random() * self._timing.renew_s * EARLY_PART
        seen = self._fences.get(handle.lease)
        term, requests = begin(handle.lease, holder, self._timing, now, seen, early_s=early_s)
        entry = _Entry(handle, term)
        self._entries[holder] = self._by_handle[handle] = entry
        with self._lock:
            self._handles[handle] = None
        self._advance(entry, (term, requests), now)

    def _answered(self, answer: Answer, now: float) -> None:
        self._journal.answered(answer)
        request = answer.request
        if isinstance(request, Draw) and answer.fence is not None:
            self._fences[request.lease] = answer.fence
        entry = self._entries.get(request.holder)
        if entry is not None:
            self._advance(entry, step(entry.term, answer, now), now, answer)
        elif isinstance(request, Insert):
            is_ours = answer.outcome is Outcome.APPLIED or answer.holder == request.holder
            self._out.extend(self._orphans.claim(request.lease, request.holder if is_ours else None))
        elif isinstance(request, Release) and answer.outcome is Outcome.APPLIED:
            self._journal.orphan_deleted(request.lease, request.holder)
        if answer.outcome is Outcome.REFUSED:
            self._out.extend(self._orphans.claim(request.lease, answer.holder))

    def _rows(self, reply: LeaseRows, now: float) -> None:
        self._is_free_stale |= self._watch.on_rows(reply, now)
        for lease, row in (reply.rows or {}).items():
            self._journal.seen(lease, row)
            self._out.extend(self._orphans.claim(lease, row.holder))

    def _want(self, want: Want, now: float) -> None:
        if want.candidacy not in self._candidacies:
            self._candidacies.append(want.candidacy)
        want.candidacy.wanted = want.leases
        if want.is_last:
            self._candidacies.remove(want.candidacy)
        self._watch.want(itertools.chain.from_iterable(each.wanted for each in self._candidacies), now)
        self._is_free_stale = True

    def _publish_free(self) -> None:
        """Once a turn, whatever changed in it."""
        self._is_free_stale = False
        for each in self._candidacies:
            each.publish(tuple(free for lease, free in self._watch.free.items() if lease in each.wanted))

    def _advance(self, entry: _Entry, result: Step, now: float, answer: Answer | None = None) -> None:
        """Take over a step of a term: send its requests, tell whom it concerns, plan the next tick."""
        old, (term, requests) = entry.term, result
        entry.term = term
        for request in requests:
            self._journal.sent(request, entry.handle, len(term.cycle.tries) if term.cycle else 1)
            self._out.append(replace(request, drawn_at=self._runtime.wall()) if isinstance(request, Draw) else request)
        self._out.extend(self._journal.notes(old, term, self._runtime.wall()))
        if term.phase is not old.phase or term.valid_until != old.valid_until or requests:
            entry.handle.publish(self._journal.view(entry.handle, old, term, now))
        if term.phase is Phase.ENDED:
            self._ended(entry, answer, now)
            return
        at = next_at(term)
        if at is not None and at != entry.wake_at:
            entry.wake_at = at
            heapq.heappush(self._heap, (at, next(self._order), term.holder))

    def _ended(self, entry: _Entry, answer: Answer | None, now: float) -> None:
        term = entry.term
        del self._entries[term.holder], self._by_handle[entry.handle]
        with self._lock:
            del self._handles[entry.handle]
        if term.may_linger:
            self._orphans.remember(term.holder)
        if term.confirmed_at is None:
            holder = answer.holder if answer is not None and term.reason == OTHER_HOLDER else None
            self._watch.refused(term.lease, holder, now)
            self._is_free_stale = True
        elif term.reason != RELEASE_UNKNOWN and not term.row_gone:
            self._out.append(Signal(self._node_id(), term.lease, entry.surplus))
