"""The thread that looks whether a runner overstays: told that its term ended, yet still inside after the wait.

A runner cannot be killed; so its stack goes to the log and the process is asked to stop in the ordinary way, with exit
code 4 (design.md section 4). Does not see an interpreter that hangs as a whole: that is `runtime.last_resort`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from strata_daemon.base.runtime import Latch, Runtime, Thread
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.term import Phase

LOOK_S = 1.0


class Watchdog:
    """`handles` gives every term that has not ended; `on_overdue` asks for the stop, once."""

    def __init__(
        self,
        runtime: Runtime,
        handles: Callable[[], Sequence[TermHandle]],
        threads: Callable[[], Sequence[Thread]],
        on_overdue: Callable[[], None],
        *,
        shutdown_wait_s: float,
        log: logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self._runtime = runtime
        self._handles = handles
        self._threads = threads
        self._on_overdue = on_overdue
        self._shutdown_wait_s = shutdown_wait_s
        self._log = log
        self._stop = Latch(runtime.event())
        self._thread: Thread | None = None
        self._has_told = False
        self._beat_at = runtime.now()

    def start(self) -> None:
        self._thread = self._runtime.spawn("watchdog", self._run)

    def request_stop(self) -> None:
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        return self._thread is None or self._thread.join(timeout_s)

    @property
    def thread(self) -> Thread | None:
        return self._thread

    @property
    def beat_at(self) -> float:
        """The instant of the last look; written by the watchdog's thread, shown by others."""
        return self._beat_at

    def overdue(self) -> list[TermHandle]:
        """Terms lost longer ago than STRATA_SHUTDOWN_WAIT whose runner has not left."""
        limit = self._runtime.now() - self._shutdown_wait_s
        views = [(handle, handle.view()) for handle in self._handles()]
        return [
            handle
            for handle, view in views
            if view.phase is Phase.LOST and view.left_at is not None and view.left_at <= limit
        ]

    def look(self) -> None:
        """One look. After the first overdue runner the process stops, so there is one line for it and no more."""
        self._beat_at = self._runtime.now()
        late = self.overdue()
        if not late or self._has_told:
            return
        self._has_told = True
        stacks = {thread.name: thread.stack() for thread in self._threads() if thread.is_alive()}
        for handle in late:
            fields = {"worker": handle.worker, "lease": handle.lease, "waited_s": self._shutdown_wait_s}
            self._log.error("runner overstays its lost lease", extra={**fields, "stacks": stacks})
        self._on_overdue()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()
