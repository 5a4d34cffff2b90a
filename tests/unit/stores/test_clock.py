"""The second clock of an embedded store."""

from __future__ import annotations

from datetime import datetime, timedelta

from strata_daemon.stores.clock import StartClock
from tests.unit.leader.by_hand import START, HandRuntime


class _SetClock(HandRuntime):
    """A host whose wall clock an operator sets."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by_s = 0.0

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.at + self.set_by_s)


def test_it_goes_on_with_the_time_since_boot() -> None:
    runtime = _SetClock()
    clock = StartClock(runtime)
    runtime.at += 90.0
    assert clock.wall() == runtime.wall()


def test_a_host_clock_that_is_set_back_or_forward_does_not_move_it() -> None:
    runtime = _SetClock()
    clock = StartClock(runtime)
    for set_by_s in (-3600.0, 3600.0):
        runtime.set_by_s = set_by_s
        assert runtime.wall() - clock.wall() == timedelta(seconds=set_by_s)
