"""How many bulk requests this process has in flight: as many as the ring answers quickly, whoever sends them.

Leases stand in the same queues of the nodes as the workers' requests (faults.md 45), and more requests than the nodes
can work on only make every answer later. So the number follows the answers: it grows while they come quickly, and
shrinks as soon as they take longer than that on average. And leases go first: while a conditional write of this process
for a lease waits for its answer, only a part of that number is sent.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

LEAST, FIRST, MOST = 4, 64, 256
GROWTH = 8
# A renewal is to take less than half a second while workers run at full rate. It is a Paxos round: several turns in the
# same queues one after the other, and the first of them is behind what was sent before it.
QUICK_S = 0.1
# While a lease waits: renewals of many leases may be under way at nearly all times, and work must go on.
LEASE_SHARE = 16
# Places are given out by the quarter: requests that are sent together are answered together, which is less work for
# both sides than one by one.
AT_ONCE = 4


class Budget:
    """Thread-safe. Whoever is refused is called back once, when it is worth another try; never under a lock of ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all below
        self._limit: float = FIRST
        self._used = 0
        self._was_full = False  # since it last learned
        self._leases = 0
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
            if self._used < self._allowed():
                self._used += 1
                self._was_full |= self._used >= int(self._limit)
                return True
            self._waiting.append(wake)
            return False

    def give(self, took_s: float | None) -> None:
        """One less in flight. `took_s`: how long a good answer took; None when there was none."""
        with self._lock:
            self._used -= 1
            if took_s is not None:
                self._learn(took_s)
            woken = self._woken()
        for wake in woken:
            wake()

    def lease_asked(self) -> None:
        """A conditional write for a lease was sent; `lease_answered` follows, whatever becomes of it."""
        with self._lock:
            self._leases += 1

    def lease_answered(self) -> None:
        with self._lock:
            self._leases -= 1
            woken = self._woken()
        for wake in woken:
            wake()

    def _allowed(self) -> int:
        limit = int(self._limit)
        return max(LEAST, limit // LEASE_SHARE) if self._leases else limit

    def _woken(self) -> list[Callable[[], None]]:
        room = self._allowed() - self._used
        if room * AT_ONCE < self._allowed():
            return []
        return [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]

    def _learn(self, took_s: float) -> None:
        """By the mean of as many answers as may be in flight. Few in flight say nothing of more."""
        self._answers += 1
        self._answers_s += took_s
        if self._answers < self._limit:
            return
        mean_s = self._answers_s / self._answers
        if mean_s > QUICK_S:
            self._limit = max(LEAST, self._limit * max(0.5, QUICK_S / mean_s))
        elif self._was_full:
            self._limit = min(MOST, self._limit + GROWTH)
        self._was_full = self._used >= int(self._limit)
        self._answers, self._answers_s = 0, 0.0
