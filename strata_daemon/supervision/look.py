"""A question to a store that may hang, asked so that no reader hangs with it.

The question runs on a short thread of its own, one at most; readers (the server's threads) wait a moment for it and
then take the last answer. It cannot end a question that hangs: that thread stays, and no second one is started.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from strata_daemon.base.runtime import Latch, Runtime

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """The last answer and the instant its question was asked; both None when there is none yet. `hangs_since`: when
    the question was asked that has no answer yet, None when every question has its answer."""

    answer: T | None
    asked_at: float | None
    hangs_since: float | None


class Look(Generic[T]):
    """`ask` answers None when it could not look: the answer before it then stands. What it raises ends the process,
    as on any thread, so it translates what it expects."""

    def __init__(
        self, runtime: Runtime, name: str, ask: Callable[[], T | None], *, fresh_s: float, wait_s: float
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._ask = ask
        self._fresh_s = fresh_s
        self._wait_s = wait_s
        self._lock = threading.Lock()  # guards the four below
        self._answer: T | None = None
        self._answered_at: float | None = None
        self._asked_at: float | None = None
        self._answered: Latch | None = None

    def request(self) -> None:
        """Ask, unless the last question is younger than `fresh_s` or has no answer yet. Returns at once."""
        now = self._runtime.now()
        answered = Latch(self._runtime.event())
        with self._lock:
            is_fresh = self._asked_at is not None and now - self._asked_at < self._fresh_s
            if is_fresh or self._answered is not None:
                return
            self._asked_at, self._answered = now, answered
        self._runtime.spawn(self._name, lambda: self._run(now, answered))

    def read(self) -> Seen[T]:
        """Ask when it is time, and wait for the answer until `wait_s` after its question: the readers of one that
        hangs for longer do not wait at all."""
        self.request()
        with self._lock:
            answered, asked_at = self._answered, self._asked_at
        if answered is not None and asked_at is not None:
            answered.wait(max(0.0, asked_at + self._wait_s - self._runtime.now()))
        with self._lock:
            return Seen(self._answer, self._answered_at, self._asked_at if self._answered is not None else None)

    def _run(self, asked_at: float, answered: Latch) -> None:
        answer = self._ask()
        with self._lock:
            if answer is not None:
                self._answer, self._answered_at = answer, asked_at
            self._answered = None
        answered.set()
