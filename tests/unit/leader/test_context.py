"""`check(for_s)`: what guards an effect, in virtual time and without a timer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from strata_daemon.base.errors import LeaseLost, StopRequested
from strata_daemon.base.runtime import Latch, Stopping
from strata_daemon.base.runtime.virtual import VirtualRuntime, VirtualWorld
from strata_daemon.leader.context import CANNOT_COVER, LeasedContext
from strata_daemon.leader.handle import TermHandle, TermView
from strata_daemon.leader.term import DEADLINE, TAKEN, Phase

WINDOW_S = 28.0


class Guarded:
    """A term whose view a test publishes, and a runner that checks on a thread of its own."""

    def __init__(self) -> None:
        self.world = VirtualWorld(1)
        self.runtime: VirtualRuntime = self.world.process("p")
        self.stopping = Stopping(self.runtime.event())
        self.handle = TermHandle(self.runtime, "w-leader", "w", self.runtime.event())
        self.ctx = LeasedContext(self.runtime, self.handle, self.stopping, once=False, on_progress=lambda count: None)
        self.outcome: list[str] = []
        self.renew()

    def renew(self) -> None:
        now = self.runtime.now()
        view = TermView(Phase.HELD, "n/1/u", WINDOW_S, token=3, renewed_at=now, valid_until=now + WINDOW_S)
        self.handle.publish(view)

    def lose(self, reason: str) -> None:
        self.handle.publish(replace(self.handle.view(), phase=Phase.LOST, reason=reason))

    def check(self, for_s: float) -> None:
        def body() -> None:
            try:
                self.ctx.check(for_s)
                self.outcome.append("allowed")
            except LeaseLost as exc:
                self.outcome.append(exc.reason)
            except StopRequested:
                self.outcome.append("stop")

        self.runtime.spawn("runner", body)
        self.world.settle()


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    made = Guarded()
    yield made
    made.world.close()


def test_an_effect_that_fits_is_allowed_at_once(guarded: Guarded) -> None:
    guarded.check(WINDOW_S)
    assert guarded.outcome == ["allowed"]


def test_one_that_does_not_fit_waits_for_the_next_renewal(guarded: Guarded) -> None:
    guarded.world.advance(20.0)
    guarded.check(10.0)
    assert guarded.outcome == []
    guarded.world.advance(1.0)
    assert guarded.outcome == []
    guarded.renew()
    guarded.world.settle()
    assert guarded.outcome == ["allowed"]


def test_one_that_never_fits_is_refused_without_waiting(guarded: Guarded) -> None:
    guarded.check(WINDOW_S + 0.1)
    assert guarded.outcome == [CANNOT_COVER]


def test_one_that_does_not_fit_even_after_a_renewal_is_refused(guarded: Guarded) -> None:
    """The store's skew has grown meanwhile."""
    guarded.world.advance(20.0)
    guarded.check(10.0)
    now = guarded.runtime.now()
    guarded.handle.publish(replace(guarded.handle.view(), renewed_at=now, valid_until=now + 5.0))
    guarded.world.settle()
    assert guarded.outcome == [CANNOT_COVER]


def test_a_stuck_timer_extends_nothing(guarded: Guarded) -> None:
    """The view still says held; the clock says otherwise (defect c, and after a suspend: faults.md 10)."""
    guarded.world.advance(WINDOW_S)
    guarded.check(0.0)
    assert guarded.outcome == [DEADLINE]
    assert guarded.ctx.is_lost()
    assert guarded.ctx.remaining_s() == 0.0


def test_a_wait_ends_at_the_deadline(guarded: Guarded) -> None:
    guarded.world.advance(20.0)
    guarded.check(10.0)
    guarded.world.advance(8.0)
    assert guarded.outcome == [DEADLINE]


@pytest.mark.parametrize("reason", [TAKEN, DEADLINE])
def test_a_lost_term_allows_nothing_and_says_why(guarded: Guarded, reason: str) -> None:
    guarded.lose(reason)
    guarded.check(0.0)
    assert guarded.outcome == [reason]


def test_a_loss_ends_a_wait_in_check(guarded: Guarded) -> None:
    guarded.world.advance(20.0)
    guarded.check(10.0)
    guarded.lose(TAKEN)
    guarded.world.settle()
    assert guarded.outcome == [TAKEN]


def test_a_stop_ends_a_wait_in_check_but_refuses_no_effect_that_fits(guarded: Guarded) -> None:
    guarded.world.advance(20.0)
    guarded.check(10.0)
    guarded.stopping.set()
    guarded.world.settle()
    assert guarded.outcome == ["stop"]
    guarded.check(1.0)
    assert guarded.outcome == ["stop", "allowed"]


def test_a_runner_that_waits_is_woken_by_a_loss_and_by_a_stop(guarded: Guarded) -> None:
    woken: list[bool] = []
    guarded.runtime.spawn("runner", lambda: woken.append(guarded.ctx.wait(100.0)))
    guarded.world.settle()
    assert woken == []
    guarded.lose(TAKEN)
    guarded.world.settle()
    assert woken == [True]


def test_the_loss_is_told_once(guarded: Guarded) -> None:
    """faults.md 15."""
    told: list[int] = []
    guarded.handle.lost.subscribe(_Counting(told))
    guarded.lose(TAKEN)
    guarded.lose(DEADLINE)
    guarded.lose(DEADLINE)
    assert told == [1]


class _Counting:
    """An event that counts how often it is set."""

    def __init__(self, told: list[int]) -> None:
        self._told = told

    def is_set(self) -> bool:
        return bool(self._told)

    def set(self) -> None:
        self._told.append(1)

    def clear(self) -> None:
        self._told.clear()

    def wait(self, timeout_s: float | None = None) -> bool:
        return self.is_set()


def test_a_latch_wakes_whoever_subscribed_even_late() -> None:
    world = VirtualWorld(1)
    runtime = world.process("p")
    latch, early, late = Latch(runtime.event()), runtime.event(), runtime.event()
    latch.subscribe(early)
    latch.set()
    latch.subscribe(late)
    assert early.is_set() and late.is_set()
    world.close()
