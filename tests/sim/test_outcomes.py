"""Answers that are lost, clocks of the store that differ, and what an idle fleet costs."""

from __future__ import annotations

import pytest

from strata_daemon.leader.store import Allowance, Draw, Insert, ReadLeases, Release, Renew
from tests.sim.kit.fleet import fleet
from tests.sim.kit.scripted_store import Act

LEASE = "gc-leader-0"
LOST_ANSWERS = [Act.DROP_REPLY, Act.UNKNOWN_APPLIED, Act.DROP_REQUEST, Act.UNKNOWN_NOT_APPLIED]


@pytest.mark.parametrize("act", LOST_ANSWERS)
@pytest.mark.parametrize("kind", [Insert, Draw, Renew])
def test_one_lost_answer_costs_a_repeat_and_no_term(seed: int, kind: type, act: Act) -> None:
    """faults.md 27, 28; S1: what was applied although no answer came is found by repeating it."""
    with fleet(seed) as made:
        made.truth.put_row(LEASE, "other/1/x", 3.0)
        node = made.start("a")
        node.leases.fault(lambda request: isinstance(request, kind), act, times=1)
        made.run_until(lambda: made.leader() == "a", 3.0 + 7.0)
        made.run(60.0)
        assert made.leader() == "a"
        inserts = {each.request.holder for each in node.leases.executed(Insert)}
        assert len(inserts) == 1, "one attempt"


@pytest.mark.parametrize("act", LOST_ANSWERS)
def test_a_release_whose_answer_is_lost_is_repeated(seed: int, act: Act) -> None:
    """faults.md 27, 31."""
    with fleet(seed) as made:
        node = made.start("a")
        made.run(5.0)
        node.leases.fault(lambda request: isinstance(request, Release), act, times=1)
        node.stop()
        made.run_until(lambda: node.code == 0, 6.0)
        assert made.leader() is None


def test_tokens_grow_although_draws_are_lost(seed: int) -> None:
    with fleet(seed) as made:
        tokens: list[int] = []
        for number in range(6):
            node = made.start(f"n{number}")
            node.leases.fault(lambda request: isinstance(request, Draw), LOST_ANSWERS[number % 4], times=1)
            made.run_until(lambda name=node.name: made.leader() == name, 12.0)  # type: ignore[misc]
            made.run(4.0)
            token = made.truth.list_leases()[0].token
            assert token is not None
            tokens.append(token)
            node.stop()
            made.run(3.0)
        assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("ahead_s", [0.0, 4.0])
def test_a_store_whose_clocks_differ_within_the_allowance_elects_one(seed: int, ahead_s: float) -> None:
    """faults.md 9: the candidate's coordinator judges the lease expired early."""
    with fleet(seed) as made:
        for name in "ab":
            node = made.start(name)
            node.leases.allowance_now = Allowance(1.0, 4.0)
        made.run_until(lambda: made.leader() is not None, 10.0)
        leader = made.leader()
        assert leader is not None
        other = made.nodes["b" if leader == "a" else "a"]
        other.leases.skew_s = ahead_s
        made.feed(20_000)
        made.run(5.0)
        made.nodes[leader].leases.is_cut = True
        made.run(40.0)
        assert made.leader() == other.name


def test_an_idle_leader_renews_six_times_a_minute_and_a_standby_writes_nothing(seed: int) -> None:
    """faults.md 65."""
    with fleet(seed) as made:
        made.start("a")
        made.run(10.0)
        made.start("b")
        made.run(10.0)
        renewals = len(made.nodes["a"].leases.executed(Renew))
        made.run(600.0)
        assert len(made.nodes["a"].leases.executed(Renew)) - renewals in (59, 60, 61)
        assert made.nodes["b"].leases.executed(Insert, Renew, Release, Draw) == []
        reads = len(made.nodes["b"].leases.executed(ReadLeases))
        assert reads <= 620 / 4.0, "one read by name each poll"
