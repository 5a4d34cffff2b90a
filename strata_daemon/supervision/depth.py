"""The size of the gc queue as last read: kept fresh by whoever asks, at most once each few seconds.

Asked by readers of metrics and health, on their threads; the store is read on `queue-depth` (see `look`), so a queue
that is slow to count delays a scrape by a moment at most. What is shown then is older, and its age is exported.
"""

from __future__ import annotations

from collections.abc import Callable

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.ports.gc_queue import GCQueue, QueueDepth
from strata_daemon.supervision.look import Look

FRESH_S = 5.0
WAIT_S = 0.25  # far below the time-out of a scrape (10 s) or of a liveness probe (1 s)


class DepthGauge:
    """`read` gives the whole queue (defect G1) and the instant at which it was asked for. `on_failure` is told once
    when reading begins to fail."""

    def __init__(self, runtime: Runtime, queue: GCQueue, region: str, on_failure: Callable[[str], None]) -> None:
        self._queue = queue
        self._region = region
        self._on_failure = on_failure
        self._is_failing = False  # of the one thread that asks
        self._look = Look(runtime, "queue-depth", self._ask, fresh_s=FRESH_S, wait_s=WAIT_S)

    def read(self) -> tuple[QueueDepth | None, float | None]:
        seen = self._look.read()
        return seen.answer, seen.asked_at

    def _ask(self) -> QueueDepth | None:
        try:
            depth = self._queue.depth(self._region)
        except StoreUnavailable as exc:
            if not self._is_failing:
                self._is_failing = True
                self._on_failure(str(exc))
            return None
        self._is_failing = False
        return depth
