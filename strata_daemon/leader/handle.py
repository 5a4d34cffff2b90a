"""One attempt and its term as other threads see it: written by the timer thread alone, read by anybody."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from strata_daemon.base.runtime import Event, Latch, Runtime
from strata_daemon.leader.term import Phase


@dataclass(frozen=True, slots=True)
class TermView:
    """A term at one instant. Instants are runtime seconds; `window_s` is the validity right after a renewal.

    `unknown` counts the tries whose outcome stayed unknown. `left_at` is when the term was lost, for whoever measures
    how long its runner takes to leave.
    """

    phase: Phase
    holder: str
    window_s: float
    token: int | None = None
    began_at: float | None = None
    renewed_at: float | None = None
    valid_until: float | None = None
    left_at: float | None = None
    reason: str = ""
    unknown: int = 0


class TermHandle:
    """`lost` is set once when a term that had begun ends by loss; `ended` once when nothing of it remains to do.

    `wake` belongs to the owner and is set at each change of phase.
    """

    def __init__(self, runtime: Runtime, lease: str, worker: str, wake: Event) -> None:
        self.lease = lease
        self.worker = worker
        self.wake = wake
        self.lost = Latch(runtime.event())
        self.ended = Latch(runtime.event())
        self._runtime = runtime
        self._lock = threading.Lock()  # guards _view and _waiters
        self._view = TermView(Phase.INSERTING, "", 0.0)
        self._waiters: list[Event] = []

    def view(self) -> TermView:
        with self._lock:
            return self._view

    def publish(self, view: TermView) -> None:
        """Timer thread only. Sets the latches after the view, so that whoever wakes sees why."""
        with self._lock:
            before, self._view = self._view, view
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()
        if view.phase is before.phase:
            return
        if view.phase is Phase.LOST:
            self.lost.set()
        if view.phase is Phase.ENDED:
            self.ended.set()
        self.wake.set()

    def wait_change(self, seen: TermView, timeout_s: float, also: Latch) -> None:
        """Wait until the view is another than `seen`, or `also` is set, for at most `timeout_s` seconds."""
        event = self._runtime.event()
        with self._lock:
            if self._view is not seen:
                return
            self._waiters.append(event)
        also.subscribe(event)
        try:
            event.wait(timeout_s)
        finally:
            also.unsubscribe(event)
            with self._lock:
                self._waiters = [each for each in self._waiters if each is not event]
