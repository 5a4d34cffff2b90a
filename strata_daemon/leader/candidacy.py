"""A set of leases that one thread waits for: what of it looks free, and attempts to take one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from strata_daemon.base.runtime import Event, Runtime
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.watch import Free


@dataclass(frozen=True, slots=True)
class Want:
    """A command to the timer: this candidacy waits for exactly these leases now. `is_last`: and never again."""

    candidacy: Candidacy
    leases: frozenset[str]
    is_last: bool = False


class Candidacy:
    """Of one waiting thread, whose `wake` is set when more looks free. `wanted` is the timer thread's."""

    def __init__(
        self,
        runtime: Runtime,
        worker: str,
        wake: Event,
        put: Callable[[Want], None],
        begin: Callable[[TermHandle], None],
    ) -> None:
        self._runtime = runtime
        self._worker = worker
        self._wake = wake
        self._put = put
        self._begin = begin
        self._lock = threading.Lock()  # guards _free
        self._free: tuple[Free, ...] = ()
        self._asked: frozenset[str] = frozenset()
        self.wanted: frozenset[str] = frozenset()

    def want(self, leases: Iterable[str]) -> None:
        """Wait for exactly these leases from now on."""
        asked = frozenset(leases)
        if asked != self._asked:
            self._asked = asked
            self._put(Want(self, asked))

    def free(self) -> tuple[Free, ...]:
        """What looks free now, of what was asked for last."""
        with self._lock:
            return tuple(free for free in self._free if free.lease in self._asked)

    def publish(self, free: tuple[Free, ...]) -> None:
        """Timer thread only."""
        with self._lock:
            self._free = free
        if free:
            self._wake.set()

    def request_acquire(self, lease: str) -> TermHandle:
        """Start an attempt under a new holder and return at once; the handle tells what becomes of it."""
        handle = TermHandle(self._runtime, lease, self._worker, self._wake)
        self._begin(handle)
        return handle

    def close(self) -> None:
        self._put(Want(self, frozenset(), is_last=True))
