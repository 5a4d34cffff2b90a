"""A runtime and a lease store that do nothing by themselves: a test turns the timer and answers by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from strata_daemon.base.log import logger
from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Event, Pool, Thread, WakingQueue
from strata_daemon.leader.candidacy import Candidacy
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.store import (
    Allowance,
    Answer,
    Deliver,
    Draw,
    LeaseRow,
    LeaseRows,
    Outcome,
    ReadLeases,
    ReadSignals,
    Request,
    SignalRows,
)
from strata_daemon.leader.timer import LeaseTimer
from strata_daemon.leader.timing import Timing

TIMING = Timing(30, 10.0, 2.0)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Flag:
    """An event that nobody can wait on: a unit under test by hand must not block."""

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        assert self._set or timeout_s is not None, "would wait without end"
        return self._set


class HandRuntime:
    """Time moves when a test says so."""

    def __init__(self) -> None:
        self.at = 100.0
        self.resorts: list[float | None] = []

    def now(self) -> float:
        return self.at

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.at)

    def random(self) -> float:
        return 0.5

    def event(self) -> Event:
        return Flag()

    def queue(self, wake: Event | None = None) -> WakingQueue[Any]:
        return WakingQueue(wake if wake is not None else self.event())

    def spawn(self, name: str, target: Callable[[], None]) -> Thread:
        raise AssertionError(f"no thread here: {name}")

    def pool(self, name: str, size: int) -> Pool:
        raise AssertionError(f"no pool here: {name}")

    def last_resort(self, at: float | None) -> None:
        self.resorts.append(at)

    def exit(self, code: int) -> None:
        raise AssertionError(f"left with {code}")


@dataclass
class HandStore:
    """Keeps what was submitted; answers nothing."""

    limits: Allowance = Allowance(0.0, 0.0)
    sent: list[Request] = field(default_factory=list)
    deliver: Deliver | None = None

    def allowance(self) -> Allowance:
        return self.limits

    def submit(self, requests: Sequence[Request], deliver: Deliver) -> None:
        self.sent.extend(requests)
        self.deliver = deliver

    def close(self, timeout_s: float) -> bool:
        return True


class Bench:
    """A timer on a hand runtime and a hand store. Every method turns the timer once at its end."""

    def __init__(self, timing: Timing = TIMING) -> None:
        self.runtime = HandRuntime()
        self.store = HandStore()
        self.metrics = Metrics()
        self.timer = LeaseTimer(
            self.runtime,
            self.store,
            timing,
            poll_s=5.0,
            shutdown_wait_s=20.0,
            node_id=lambda: "node-a",
            metrics=self.metrics,
            log=logger("leader"),
        )
        self.wake = self.runtime.event()

    def candidacy(self, *leases: str) -> Candidacy:
        candidacy = self.timer.candidacy("gc", self.wake)
        candidacy.want(leases)
        self.turn()
        return candidacy

    def turn(self, after_s: float = 0.0) -> None:
        self.runtime.at += after_s
        self.timer.turn()

    def take(self, kind: type, count: int = 1) -> list[Any]:
        """Requests of a kind that were sent since the last take; exactly `count` of them."""
        found = [each for each in self.store.sent if isinstance(each, kind)]
        self.store.sent = [each for each in self.store.sent if not isinstance(each, kind)]
        assert len(found) == count, f"{kind.__name__}: {found}, expected {count}"
        return found

    def forget_reads(self) -> None:
        self.store.sent = [each for each in self.store.sent if not isinstance(each, ReadLeases | ReadSignals)]

    def answer(self, request: Any, outcome: Outcome, holder: str | None = None, fence: int | None = None) -> None:
        assert self.store.deliver is not None
        if isinstance(request, Draw) and outcome is Outcome.APPLIED:
            fence = (request.seen or 0) + 1
        self.store.deliver([Answer(request, outcome, holder=holder, fence=fence)])
        self.turn()

    def rows(self, leases: Iterable[str], rows: dict[str, LeaseRow] | None) -> None:
        assert self.store.deliver is not None
        self.store.deliver([LeaseRows(ReadLeases(tuple(leases)), rows)])
        self.turn()

    def signals(self, rows: dict[str, Any] | None) -> None:
        assert self.store.deliver is not None
        self.store.deliver([SignalRows(ReadSignals(), rows)])
        self.turn()

    def hold(self, candidacy: Candidacy, lease: str) -> TermHandle:
        """Win a lease with every answer applied."""
        from strata_daemon.leader.store import Insert, Renew

        handle = candidacy.request_acquire(lease)
        self.turn()
        for kind in (Insert, Draw, Renew):
            self.answer(self.take(kind)[0], Outcome.APPLIED)
        return handle
