"""Opens stores that may not answer yet, patiently, while health is served and a signal still ends the process.

The opening runs on the thread `boot`, the waiting on the main thread. A store that answers "never like this"
(PreflightError, ConfigError) ends the boot at once; one that does not answer is asked again, without an end, since an
operator sees it: one log line a minute, `/readyz` red.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import tenacity
from prometheus_client import CollectorRegistry, generate_latest

from strata_daemon.base import log
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Event, Runtime
from strata_daemon.http.server import HttpServer, build_app

S = TypeVar("S")
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
SAID_EACH_S = 60.0


class Boot(Generic[S]):
    """`opened` and `failure` are written by the thread `boot` before it calls `on_end`, and read by its owner after."""

    def __init__(self, runtime: Runtime, http: HttpServer, open_stores: Callable[[], S]) -> None:
        self._runtime = runtime
        self._http = http
        self._open = open_stores
        self._log = log.logger("boot")
        self._stopping: Event = runtime.event()
        self._problem = "the stores are being opened"
        self._said_at: float | None = None
        self.opened: S | None = None
        self.failure: BaseException | None = None

    def start(self, on_end: Callable[[], None]) -> None:
        """Serve health, and begin to open. `on_end` is called, on another thread, when there is an answer."""
        empty = CollectorRegistry()
        self._http.start(build_app(lambda: [], lambda: [self._problem], lambda: generate_latest(empty)))

        def run() -> None:
            try:
                self.opened = self._repeat()
            except BaseException as exc:  # the net at the top of this thread: its owner raises it
                self.failure = exc
            on_end()

        self._runtime.spawn("boot", run)

    def request_stop(self) -> None:
        self._stopping.set()

    def _repeat(self) -> S:
        patience = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(StoreUnavailable),
            wait=tenacity.wait_random_exponential(FIRST_PAUSE_S, LONGEST_PAUSE_S),
            stop=lambda _state: self._stopping.is_set(),
            sleep=self._pause,
            before_sleep=self._tell,
            reraise=True,
        )
        return patience(self._open)

    def _pause(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def _tell(self, state: tenacity.RetryCallState) -> None:
        error = str(state.outcome.exception()) if state.outcome is not None else ""
        self._problem = f"not connected yet: {error}"
        now = self._runtime.now()
        if self._said_at is None or now - self._said_at >= SAID_EACH_S:
            self._said_at = now
            self._log.warning("stores not reached yet", extra={"error": error, "tries": state.attempt_number})
