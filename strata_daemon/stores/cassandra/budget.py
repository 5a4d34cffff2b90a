"""How many bulk requests this process has in flight: as many as the ring answers quickly, whoever sends them.

Leases stand in the same queues of the nodes as the workers' requests (faults.md 45), and more requests than the nodes
can work on only make every answer later. So the number follows the answers: it grows while they come quickly, and
shrinks as soon as they take longer than that on average.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

LEAST, FIRST, MOST = 4, 16, 256
GROWTH = 4
# A renewal is to take less than half a second while workers run at full rate. It is a Paxos round: several turns in the
# same queues one after the other. Single answers take several times as long as the mean.
QUICK_S = 0.04


class Budget:
    """Thread-safe. Whoever is refused is called back once, when it is worth another try; never under a lock of ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all below
        self._limit: float = FIRST
        self._used = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._answers = 0
        self._answers_s = 0.0

    @property
    def limit(self) -> int:
        with self._lock:
            return int(self._limit)

    def take(self, wake: Callable[[], None]) -> bool:
        """One more in flight; else False, and `wake` is called later."""
        with self._lock:
            if self._used < int(self._limit):
                self._used += 1
                return True
            self._waiting.append(wake)
            return False

    def give(self, took_s: float | None) -> None:
        """One less in flight. `took_s`: how long a good answer took; None when there was none."""
        woken = []
        with self._lock:
            self._used -= 1
            if took_s is not None:
                self._learn(took_s)
            for _ in range(min(int(self._limit) - self._used, len(self._waiting))):
                woken.append(self._waiting.popleft())
        for wake in woken:
            wake()

    def _learn(self, took_s: float) -> None:
        """By the mean of as many answers as may be in flight."""
        self._answers += 1
        self._answers_s += took_s
        if self._answers < self._limit:
            return
        mean_s = self._answers_s / self._answers
        if mean_s > QUICK_S:
            self._limit = max(LEAST, self._limit * max(0.5, QUICK_S / mean_s))
        else:
            self._limit = min(MOST, self._limit + GROWTH)
        self._answers, self._answers_s = 0, 0.0
