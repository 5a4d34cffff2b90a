"""What a part may ask of its runtime. Instants are seconds on a clock that cannot step and counts suspend."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol, TypeVar

from strata_daemon.base.runtime.event import Event
from strata_daemon.base.runtime.queue import WakingQueue

T = TypeVar("T")
R = TypeVar("R")


class Thread(Protocol):
    """A running thread, with an owner who joins it."""

    @property
    def name(self) -> str: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the thread; say whether it has ended."""
        ...

    def stack(self) -> str:
        """Where the thread is now, as text for a log line; empty when it has ended."""
        ...


class Pool(Protocol):
    """A bounded number of threads that work on the items of one caller at a time."""

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Call `function` for each item, at most `size` at once; answers in the order of the items.

        Returns when every call has returned. The first exception (by item order) is raised then, never before.
        """
        ...

    def close(self) -> None:
        """Let the threads end and join them. Only when no `map` is running."""
        ...


class Runtime(Protocol):
    """Time and threads. Real in a process, virtual in a simulation; nothing else may wait or read a clock."""

    def now(self) -> float:
        """Seconds on CLOCK_BOOTTIME (faults.md 10). Only differences and comparisons mean something."""
        ...

    def wall(self) -> datetime:
        """The host's wall clock as aware UTC. For display and for ages only, never for a lease (faults.md 8)."""
        ...

    def random(self) -> float:
        """A number from 0 up to 1, for jitter; seeded in a simulation."""
        ...

    def event(self) -> Event: ...

    def queue(self, wake: Event | None = None) -> WakingQueue[Any]:
        """A queue whose every put sets `wake` (a new event when None)."""
        ...

    def spawn(self, name: str, target: Callable[[], None]) -> Thread:
        """Start a thread. What escapes `target` reaches the process's crash handler: no thread dies in silence."""
        ...

    def pool(self, name: str, size: int) -> Pool:
        """A pool of `size` threads named `<name>-<i>`; with size 1 the caller's own thread does the work."""
        ...

    def last_resort(self, at: float | None) -> None:
        """Dump every stack and leave with code 1 at instant `at`, unless moved before; None calls it off.

        One timer a process, so only one part may use it: the lease timer (design.md section 4).
        """
        ...

    def exit(self, code: int) -> None:
        """Leave the process at once, without unwinding."""
        ...
