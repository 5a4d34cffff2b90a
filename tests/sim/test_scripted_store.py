"""The store of the simulation does to requests what its script says, and the truth is what it says it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strata_daemon.base.runtime.virtual import VirtualWorld
from strata_daemon.leader.store import (
    Allowance,
    Answer,
    Insert,
    LeaseRows,
    Outcome,
    ReadLeases,
    Release,
    Renew,
    Reply,
    Request,
    Signal,
)
from strata_daemon.stores.memory.leases import MemoryLeases
from tests.sim.kit.scripted_store import Act, ScriptedLeaseStore

TAKE = Insert("gc", "a", 1, 10)


class Bench:
    def __init__(self) -> None:
        self.world = VirtualWorld(seed=5)
        self.truth = MemoryLeases(self.world.process("truth"))
        self.node = self.world.process("node")
        self.store = ScriptedLeaseStore(self.truth, self.node)
        self.got: list[Reply] = []

    def send(self, *requests: Request) -> None:
        self.store.submit(requests, self.got.extend)

    def outcomes(self) -> list[Outcome]:
        return [reply.outcome for reply in self.got if isinstance(reply, Answer)]

    def holder(self) -> str | None:
        row = next(iter(self.truth.list_leases()), None)
        return None if row is None else row.holder


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.world.close()


def is_insert(request: Request) -> bool:
    return isinstance(request, Insert)


def test_an_answer_takes_its_time_both_ways(bench: Bench) -> None:
    bench.store.latency = lambda _rng: 0.2
    bench.send(TAKE)
    bench.world.advance(0.19)
    assert bench.holder() is None
    bench.world.advance(0.02)
    assert (bench.holder(), bench.got) == ("a", [])
    bench.world.advance(0.2)
    assert bench.outcomes() == [Outcome.APPLIED]


@pytest.mark.parametrize(
    ("act", "holder", "outcomes"),
    [
        (Act.DROP_REQUEST, None, []),
        (Act.DROP_REPLY, "a", []),
        (Act.UNKNOWN_APPLIED, "a", [Outcome.UNKNOWN]),
        (Act.UNKNOWN_NOT_APPLIED, None, [Outcome.UNKNOWN]),
    ],
)
def test_a_fault_strikes_what_it_matches_as_often_as_it_was_told(
    bench: Bench, act: Act, holder: str | None, outcomes: list[Outcome]
) -> None:
    fault = bench.store.fault(is_insert, act)
    bench.send(Release("gc", "z", 1), TAKE)
    bench.world.advance(1.0)
    assert (bench.holder(), fault.hits) == (holder, 1)
    assert bench.outcomes() == [Outcome.REFUSED, *outcomes]
    bench.send(Insert("gc", "a", 2, 10))
    bench.world.advance(1.0)
    assert bench.outcomes()[-1] is (Outcome.REFUSED if holder else Outcome.APPLIED)


@pytest.mark.parametrize("after_s", [30.0, None])
def test_a_stalled_request_is_executed_in_full_with_a_fresh_ttl_when_it_wakes(
    bench: Bench, after_s: float | None
) -> None:
    bench.store.fault(is_insert, Act.STALL, after_s=after_s)
    bench.send(TAKE)
    bench.world.advance(29.0)
    assert (bench.holder(), bench.store.stalled) == (None, [TAKE])
    bench.world.advance(1.0)
    if after_s is None:
        bench.store.wake_stalled()
        bench.world.settle()
    (row,) = bench.truth.list_leases()
    assert (row.holder, row.remaining_s) == ("a", 10.0)
    assert (bench.got, bench.store.stalled) == ([], [])
    (executed,) = bench.store.journal
    assert executed.at - executed.sent_at == 30.0


def test_close_waits_for_answers_on_their_way_and_not_for_what_is_stalled(bench: Bench) -> None:
    bench.store.latency = lambda _rng: 0.2
    bench.store.fault(is_insert, Act.STALL)
    bench.send(TAKE, Release("gc", "z", 1))
    closed: list[bool] = []
    took: list[float] = []
    began = bench.world.now()

    def close() -> None:
        closed.append(bench.store.close(5.0))
        took.append(bench.world.now() - began)

    bench.node.spawn("close", close)
    bench.world.advance(1.0)
    assert closed == [True]
    assert took == [pytest.approx(0.4)]
    bench.store.wake_stalled()
    bench.world.settle()
    assert (bench.holder(), bench.outcomes()) == ("a", [Outcome.REFUSED])


def test_a_cut_loses_both_ways_and_only_for_its_node(bench: Bench) -> None:
    other = ScriptedLeaseStore(bench.truth, bench.world.process("other"))
    bench.store.latency = lambda _rng: 0.1
    bench.send(TAKE)
    bench.world.advance(0.15)
    bench.store.is_cut = True
    bench.send(Renew("gc", "a", 2, 10))
    got: list[Reply] = []
    other.submit([ReadLeases(("gc",))], got.extend)
    bench.world.advance(1.0)
    assert bench.got == []
    assert [type(each.request) for each in bench.store.journal] == [Insert]
    (reply,) = got
    assert isinstance(reply, LeaseRows) and reply.rows is not None
    assert reply.rows["gc"].holder == "a"
    bench.store.heal()
    bench.send(Renew("gc", "a", 3, 10))
    bench.world.advance(1.0)
    assert bench.outcomes() == [Outcome.APPLIED]


def test_an_outage_executes_nothing(bench: Bench) -> None:
    bench.store.is_down = True
    bench.send(TAKE, Signal("node", "gc", False))
    bench.world.advance(1.0)
    assert (bench.got, bench.store.journal, bench.holder()) == ([], [], None)


def test_what_a_dead_or_frozen_node_had_sent_is_executed(bench: Bench) -> None:
    bench.send(TAKE)
    bench.node.kill()
    bench.world.advance(1.0)
    assert bench.holder() == "a"


def test_a_clock_ahead_ends_leases_of_others_early(bench: Bench) -> None:
    bench.send(TAKE)
    bench.world.advance(7.0)
    ahead = ScriptedLeaseStore(
        bench.truth, bench.world.process("ahead"), latency=lambda _rng: 0.0, allowance=Allowance(1.0, 4.0), skew_s=4.0
    )
    got: list[Reply] = []
    ahead.submit([Insert("gc", "b", 1, 10)], got.extend)
    bench.world.settle()
    assert [reply.outcome for reply in got if isinstance(reply, Answer)] == [Outcome.APPLIED]
    assert ahead.allowance() == Allowance(1.0, 4.0)
