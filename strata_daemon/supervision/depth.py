"""The size of the gc queue as last read: kept fresh by whoever asks, at most once each few seconds.

Asked by readers of metrics and health, on their threads; one of them reads the store, the others take the last value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.ports.gc_queue import GCQueue, QueueDepth

FRESH_S = 5.0


class DepthGauge:
    """`read` gives the whole queue (defect G1) and the instant at which it was read."""

    def __init__(self, runtime: Runtime, queue: GCQueue, region: str, on_failure: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._queue = queue
        self._region = region
        self._on_failure = on_failure
        self._lock = threading.Lock()  # guards the three below
        self._depth: QueueDepth | None = None
        self._read_at: float | None = None
        self._asked_at: float | None = None

    def read(self) -> tuple[QueueDepth | None, float | None]:
        now = self._runtime.now()
        with self._lock:
            if self._asked_at is not None and now - self._asked_at < FRESH_S:
                return self._depth, self._read_at
            self._asked_at = now
        try:
            depth = self._queue.depth(self._region)
        except StoreUnavailable as exc:
            self._on_failure(str(exc))
            with self._lock:
                return self._depth, self._read_at
        with self._lock:
            self._depth, self._read_at = depth, now
            return depth, now
