"""A flag that is set once and wakes whoever waits for something else meanwhile."""

from __future__ import annotations

import threading

from strata_daemon.base.runtime.event import Event


class Latch:
    """Can be asked about, waited for, and wakes whoever subscribed.

    A thread waits on one event only; so it lends its `wake` here instead of waiting on the latch as well.
    """

    def __init__(self, event: Event) -> None:
        self._event = event
        self._lock = threading.Lock()  # guards _wakes
        self._wakes: list[Event] = []

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._event.wait(timeout_s)

    def set(self) -> None:
        self._event.set()
        with self._lock:
            wakes = list(self._wakes)
        for wake in wakes:
            wake.set()

    def subscribe(self, wake: Event) -> None:
        """Set `wake` when the latch is set; at once when it is already."""
        with self._lock:
            self._wakes.append(wake)
        if self._event.is_set():
            wake.set()

    def unsubscribe(self, wake: Event) -> None:
        with self._lock:
            self._wakes = [each for each in self._wakes if each is not wake]
