"""The queue between threads: many may put, one owner drains, one event wakes it.

Unbounded on purpose; each user says why that cannot grow without end.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable
from typing import Generic, TypeVar

from strata_daemon.base.runtime.event import Event

T = TypeVar("T")


class WakingQueue(Generic[T]):
    """A `queue.Queue` that is never waited on: its owner waits on `wake`, clears it, then drains."""

    def __init__(self, wake: Event) -> None:
        self.wake = wake
        self._items: queue.Queue[T] = queue.Queue()

    def put(self, item: T) -> None:
        self._items.put_nowait(item)
        self.wake.set()

    def put_all(self, items: Iterable[T]) -> None:
        for item in items:
            self._items.put_nowait(item)
        self.wake.set()

    def drain(self) -> list[T]:
        """Everything that waits, oldest first; an empty list when nothing does."""
        items: list[T] = []
        while True:
            try:
                items.append(self._items.get_nowait())
            except queue.Empty:
                return items
