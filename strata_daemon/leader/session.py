"""The blocking face of election, for a thread that waits for one lease: acquire, then release."""

from __future__ import annotations

import threading
from collections.abc import Callable

from strata_daemon.base.runtime import Event, Latch, Runtime
from strata_daemon.leader.candidacy import Candidacy
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.membership import Membership
from strata_daemon.leader.share import rank_wait_s
from strata_daemon.leader.term import Phase
from strata_daemon.leader.timer import LeaseTimer
from strata_daemon.leader.timing import Timing

LAST_TRY_S = 0.5  # what a release has when its runner returned at the very end of the wait


class Locker:
    """Opens sessions and candidacies: `deps.locker`. Thread-safe.

    `poll_s`: how long `run --once` waits for a lease, and how often a waited lease is read at least.
    """

    def __init__(
        self,
        runtime: Runtime,
        timer: LeaseTimer,
        members: Callable[[], Membership],
        *,
        poll_s: float,
        shutdown_wait_s: float,
    ) -> None:
        self._runtime = runtime
        self._timer = timer
        self._members = members
        self.poll_s = poll_s
        self._shutdown_wait_s = shutdown_wait_s
        self._lock = threading.Lock()  # guards _stop_by
        self._stop_by: float | None = None

    @property
    def timing(self) -> Timing:
        return self._timer.timing

    def session(self, lease: str, worker: str) -> Session:
        return Session(self._runtime, self, lease, worker)

    def candidacy(self, worker: str, wake: Event) -> Candidacy:
        return self._timer.candidacy(worker, wake)

    def stop_by(self, instant: float) -> None:
        """The process stops: repeats of a release end at that instant, and what is unknown then is left to the TTL."""
        with self._lock:
            self._stop_by = instant

    def leave(self, handle: TermHandle, *, surplus: bool = False) -> float:
        """Release a term whose runner has returned; `handle.ended` tells when that is done, in the seconds returned."""
        with self._lock:
            stop_by = self._stop_by
        wait_s = self._shutdown_wait_s
        if stop_by is not None:
            wait_s = max(LAST_TRY_S, min(wait_s, stop_by - self._runtime.now()))
        self._timer.leave(handle, wait_s, surplus=surplus)
        return wait_s

    def rank_wait_s(self, worker: str, left_by: str | None) -> float:
        """How long this node lets others go first for a free lease (design.md, fair share)."""
        without = frozenset({left_by} if left_by else ())
        members = self._members()
        return rank_wait_s(members.running(worker, without), members.me)


class Session:
    """One candidacy for one lease in this process. Used by one thread."""

    def __init__(self, runtime: Runtime, locker: Locker, lease: str, worker: str) -> None:
        self._runtime = runtime
        self._locker = locker
        self._lease = lease
        self._worker = worker

    def acquire(self, stopping: Latch, within_s: float | None = None) -> TermHandle | None:
        """Wait for the lease and take it: the handle of a term that has begun.

        None when `stopping` came first, or when it was not to be had within `within_s` seconds.
        """
        give_up_at = None if within_s is None else self._runtime.now() + within_s
        wake = self._runtime.event()
        stopping.subscribe(wake)
        candidacy = self._locker.candidacy(self._worker, wake)
        try:
            candidacy.want([self._lease])
            while self._wait_free(candidacy, wake, stopping, give_up_at):
                handle = candidacy.request_acquire(self._lease)
                if self._settle(handle, wake, stopping):
                    return handle
            return None
        finally:
            candidacy.close()
            stopping.unsubscribe(wake)

    def release(self, handle: TermHandle) -> bool:
        """Give the term back and wait until that is settled, at most STRATA_SHUTDOWN_WAIT; say whether it is."""
        return handle.ended.wait(self._locker.leave(handle) + LAST_TRY_S)

    def _wait_free(self, candidacy: Candidacy, wake: Event, stopping: Latch, give_up_at: float | None) -> bool:
        """Wait until the lease looks free and it is this node's turn; False on the stop or at `give_up_at`."""
        while not stopping.is_set():
            now = self._runtime.now()
            if give_up_at is not None and now >= give_up_at:
                return False
            wait_s = self._locker.poll_s if give_up_at is None else min(self._locker.poll_s, give_up_at - now)
            for free in candidacy.free():
                turn_at = free.since + self._locker.rank_wait_s(self._worker, free.left_by)
                if now >= turn_at:
                    return True
                wait_s = min(wait_s, turn_at - now)
            wake.wait(wait_s)
            wake.clear()
        return False

    def _settle(self, handle: TermHandle, wake: Event, stopping: Latch) -> bool:
        """Wait for the end of the attempt; say whether the term has begun. A stop gives the attempt up."""
        while True:
            phase = handle.view().phase
            if phase is Phase.ENDED:
                return False
            if stopping.is_set() or phase is Phase.LOST:
                self.release(handle)
                return False
            if phase is Phase.HELD:
                return True
            wake.wait(self._locker.timing.ttl_s)
            wake.clear()
