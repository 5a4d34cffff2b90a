"""What the clocks of a ring cost a lease: nodes with scripted clocks and round trips, in time by hand (faults.md 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from strata_daemon.stores.cassandra.skew import (
    LEAST_S,
    ROUND_TRIP_MAX_S,
    SAMPLES,
    Offset,
    SkewMeter,
    allowed_s,
    spread_s,
)
from tests.unit.leader.by_hand import HandRuntime

EPOCH_S = 1_700_000_000.0


@dataclass(frozen=True)
class Endpoint:
    address: str


@dataclass(eq=False)
class Host:
    """A node whose clock is `ahead_s` before ours. Each round trip takes the next of `trips_s`, the last one for ever;
    `None`: no answer. `late`: what part of a trip is the way there."""

    address: str
    ahead_s: float = 0.0
    trips_s: list[float | None] = field(default_factory=lambda: [0.002])
    there: float = 0.5
    asked: int = 0

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.address)


@dataclass
class Rows:
    row: tuple[Any, ...]

    def one(self) -> tuple[Any, ...]:
        return self.row


class FakeRing:
    """As much of a `Ring` as the meter asks of it."""

    def __init__(self, *nodes: Host) -> None:
        self.nodes = list(nodes)
        self.runtime = HandRuntime()
        self.hosts = self
        self.lease_session = self

    def local(self) -> list[Host]:
        return self.nodes

    def bind(self, _statement: object, _values: object) -> None:
        return None

    def execute(self, _statement: object, *, host: Host, execution_profile: str, timeout: float) -> Rows:
        trip_s = host.trips_s[min(host.asked, len(host.trips_s) - 1)]
        host.asked += 1
        if trip_s is None:
            self.runtime.at += timeout
            raise TimeoutError("no answer")
        self.runtime.at += trip_s * host.there
        told_ms = int((EPOCH_S + self.runtime.at + host.ahead_s) * 1000)
        self.runtime.at += trip_s * (1 - host.there)
        return Rows((told_ms,))


Measure = Callable[[FakeRing], tuple[SkewMeter, list[float]]]


@pytest.fixture
def measured() -> Measure:
    def measure(ring: FakeRing) -> tuple[SkewMeter, list[float]]:
        told: list[float] = []
        meter = SkewMeter(ring, told.append)  # type: ignore[arg-type]
        meter.measure()
        return meter, told

    return measure


def test_clocks_that_agree_cost_one_second_all_the_same() -> None:
    assert allowed_s({"a": Offset(5.0, 0.001), "b": Offset(5.0, 0.001)}) == LEAST_S == 1.0
    assert allowed_s({}) == LEAST_S


def test_what_is_allowed_for_is_twice_the_distance_of_slowest_and_fastest() -> None:
    offsets = {"a": Offset(-2.0, 0.0), "b": Offset(1.5, 0.0), "c": Offset(0.0, 0.0)}
    assert spread_s(offsets) == 3.5
    assert allowed_s(offsets) == 7.0


def test_noise_below_a_millisecond_is_no_change() -> None:
    assert allowed_s({"a": Offset(0.0, 0.0), "b": Offset(2.00001, 0.0)}) == allowed_s(
        {"a": Offset(0.0, 0.0), "b": Offset(2.00004, 0.0)}
    )


def test_each_node_is_asked_for_its_own_clock(measured: Measure) -> None:
    ring = FakeRing(Host("a"), Host("b", ahead_s=3.0), Host("c", ahead_s=-1.0))
    meter, told = measured(ring)
    assert spread_s(meter.offsets) == pytest.approx(4.0, abs=0.005)
    assert told == [pytest.approx(8.0, abs=0.01)]
    assert {host.asked for host in ring.nodes} == {SAMPLES}


def test_a_slow_answer_counts_less_than_the_fastest_of_five(measured: Measure) -> None:
    """All of a trip on one way looks like skew of half of it."""
    crooked = Host("b", trips_s=[0.19, 0.15, 0.004, 0.18, 0.19], there=1.0)
    meter, _ = measured(FakeRing(Host("a"), crooked))
    assert meter.offsets["b"].error_s == pytest.approx(0.002)
    assert spread_s(meter.offsets) <= 0.004


def test_answers_that_took_too_long_leave_the_last_value(measured: Measure) -> None:
    slow = Host("b", ahead_s=3.0)
    ring = FakeRing(Host("a"), slow)
    meter, told = measured(ring)
    slow.ahead_s, slow.trips_s = 0.0, [ROUND_TRIP_MAX_S + 0.01]
    meter.measure()
    assert told[1] == told[0] == pytest.approx(6.0, abs=0.01)


def test_a_node_that_does_not_answer_keeps_its_last_value_and_is_asked_once(measured: Measure) -> None:
    """It may still coordinate for others; and five time-outs in turn would hold up the minute."""
    gone = Host("b", ahead_s=3.0)
    ring = FakeRing(Host("a"), gone)
    meter, told = measured(ring)
    gone.trips_s, gone.asked = [None], 0
    meter.measure()
    assert told[1] == told[0]
    assert gone.asked == 1


def test_a_node_that_is_no_part_of_the_ring_any_more_counts_no_more(measured: Measure) -> None:
    ring = FakeRing(Host("a"), Host("b", ahead_s=3.0))
    meter, told = measured(ring)
    ring.nodes.pop()
    meter.measure()
    assert told[1] == LEAST_S and meter.offsets.keys() == {"a"}


def test_a_clock_that_is_put_right_costs_less_from_the_next_measurement_on(measured: Measure) -> None:
    wrong = Host("b", ahead_s=3.0)
    meter, told = measured(FakeRing(Host("a"), wrong))
    wrong.ahead_s = 0.0
    meter.measure()
    assert told == [pytest.approx(6.0, abs=0.01), LEAST_S]
