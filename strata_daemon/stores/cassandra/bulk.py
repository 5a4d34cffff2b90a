"""Many plain requests at once, each asked of the next node when one is slow or fails.

Each try is a request of its own to a node of our choice. The driver's speculative execution would share one answer
between tries: what comes late is delivered twice, or in place of the next page (cassandra-driver 3.29, 3.30).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cassandra import ReadFailure
from cassandra.cluster import ResultSet

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.stores.cassandra.budget import Budget
from strata_daemon.stores.cassandra.errors import in_words, is_for_good
from strata_daemon.stores.cassandra.hosts import Hosts

TRIES = 3
# A node that stands still is found out by the driver after 4 s; one that is healthy answers within half a second under
# full load, so that another is not asked for nothing.
ASK_ANOTHER_S = 1.0
# But for the second try, no new one later than that after the first. With the time-out of a request a thread is back
# from an outage within 10 s: it has STRATA_SHUTDOWN_WAIT to leave (design.md 4).
REPEAT_WITHIN_S = 5.0
LOOK_S = 0.1
Row = tuple[Any, ...]


class ReadRefused(StoreUnavailable):
    """The replicas failed a read: most likely it passes over more tombstones than they are allowed to step over."""


@dataclass(slots=True)
class _Asked:
    """A request under way. `hosts`: of its tries, in order; `open`: the numbers of the tries without an answer.
    `is_counted`: it is in the budget, as long as one of them is open."""

    began_at: float
    asked_at: float
    is_counted: bool = True
    hosts: list[Any] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    error: Exception | None = None


class Pending:
    """Requests under way, at most `in_flight` at once, and as many as the process's budget allows. The first are sent
    when it is made, the next by the driver's loop thread as answers come. `wait` belongs to one thread, and is called
    once: it is what asks other nodes."""

    def __init__(
        self,
        session: Any,
        hosts: Hosts,
        runtime: Runtime,
        budget: Budget,
        requests: Sequence[Any],
        in_flight: int,
    ) -> None:
        self._session = session
        self._hosts = hosts
        self._policy = session.cluster.profile_manager.default.load_balancing_policy
        self._runtime = runtime
        self._budget = budget
        self._requests = requests
        self._in_flight = in_flight
        self._repeat_until = runtime.now() + REPEAT_WITHIN_S
        self._done = runtime.event()
        self._lock = threading.Lock()  # guards all below
        self._unsent = deque(range(len(requests)))
        self._asked: dict[int, _Asked] = {}
        self._answers: dict[int, tuple[Any, Any]] = {}
        self._failures: dict[int, Exception] = {}
        self._is_sending = False
        self._is_queued = False  # the budget will call back
        self._send_more()

    def wait(self) -> list[list[Row]]:
        """The rows of each request, in order, all pages. Raises as `Ring.gather` does, after all have ended."""
        while not self._done.wait(LOOK_S):
            self._ask_others(self._runtime.now())
        if self._failures:
            refused = next((exc for exc in self._failures.values() if is_for_good(exc)), None)
            raise _failure(refused or next(iter(self._failures.values())))
        return [_all_pages(*self._answers[index]) for index in range(len(self._requests))]

    def _send_more(self) -> None:
        """By one thread at a time: an error may come back before `execute_async` returns, and would recurse."""
        with self._lock:
            if self._is_sending:
                return
            self._is_sending = True
        while True:
            with self._lock:
                if not self._may_send():
                    self._is_sending = False
                    is_done = not self._unsent and not self._asked
                    break
                index, now = self._unsent.popleft(), self._runtime.now()
                self._asked[index] = asked = _Asked(now, now)
            self._send(index, asked)
        if is_done:
            self._done.set()

    def _may_send(self) -> bool:
        """One more. Under the lock."""
        if not self._unsent or self._is_queued or len(self._asked) >= self._in_flight:
            return False
        self._is_queued = not self._budget.take(self._wake)
        return not self._is_queued

    def _wake(self) -> None:
        with self._lock:
            self._is_queued = False
        self._send_more()

    def _send(self, index: int, asked: _Asked) -> None:
        request, number = self._requests[index], len(asked.hosts)
        host = self._hosts.next_of(self._policy.make_query_plan(None, request), asked.hosts)
        with self._lock:
            asked.hosts.append(host)
            asked.open.add(number)
        try:
            future = self._session.execute_async(request, host=host)
        except Exception as exc:  # the session was closed under us: the driver's errors have no common base
            self._failed(exc, index, number, host)
            return
        future.add_callbacks(
            self._answered,
            self._failed,
            callback_args=(future, index, host),
            errback_args=(index, number, host),
        )

    def _answered(self, rows: Any, future: Any, index: int, host: Any) -> None:
        self._hosts.answered(host)
        with self._lock:
            asked = self._asked.pop(index, None)
            if asked is None:
                return  # another node was quicker
            self._answers[index] = (future, rows)
        future.clear_callbacks()
        if asked.is_counted:
            self._budget.give(self._runtime.now() - asked.began_at)
        self._send_more()

    def _failed(self, exc: Exception, index: int, number: int, host: Any) -> None:
        with self._lock:
            asked = self._asked.get(index)
            if asked is None:
                return
            asked.open.discard(number)
            asked.error = exc
            is_over = is_for_good(exc)  # else the waiting thread says whether it is asked again
            if is_over:
                self._end(index, exc)
            is_uncounted = asked.is_counted and (is_over or not asked.open)
            if is_uncounted:
                asked.is_counted = False
        if is_uncounted:
            self._budget.give(None)
        if is_over:
            self._send_more()

    def _end(self, index: int, exc: Exception) -> None:
        """Under the lock."""
        del self._asked[index]
        self._failures[index] = exc

    def _ask_others(self, now: float) -> None:
        again: list[tuple[int, _Asked]] = []
        slow: set[Any] = set()
        with self._lock:
            for index, asked in list(self._asked.items()):
                is_slow = bool(asked.open) and now - asked.asked_at >= ASK_ANOTHER_S
                if is_slow:
                    slow.add(asked.hosts[-1])
                if not asked.hosts:
                    continue  # about to be sent
                tries = TRIES if now < self._repeat_until else 2
                if (is_slow or not asked.open) and len(asked.hosts) < tries:
                    asked.asked_at = now
                    again.append((index, asked))
                elif not asked.open and asked.error is not None:
                    self._end(index, asked.error)
        for host in slow:
            self._hosts.failed(host)
        for index, asked in again:
            self._send(index, asked)
        self._send_more()


def _failure(exc: Exception) -> StoreUnavailable:
    made = (ReadRefused if isinstance(exc, ReadFailure) else StoreUnavailable)(in_words(exc))
    made.__cause__ = exc
    return made


def _all_pages(future: Any, rows: Any) -> list[Row]:
    """Of one answered request; later pages come from the node that answered."""
    if not future.has_more_pages:
        return [] if rows is None else list(rows)
    try:
        return list(ResultSet(future, rows))
    except Exception as exc:
        raise _failure(exc) from exc
