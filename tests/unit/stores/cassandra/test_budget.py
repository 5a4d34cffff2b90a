"""How many bulk requests are in flight: as many as are answered quickly, and few while a lease waits (faults.md 45)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strata_daemon.stores.cassandra.budget import AT_ONCE, FIRST, GROWTH, LEASE_SHARE, LEAST, MOST, QUICK_S, Budget


def _refuse() -> None:
    pytest.fail("called back without having been refused")


def _fill(budget: Budget, wake: Callable[[], None]) -> int:
    """Take all there is, until refused; how many."""
    taken = 0
    while budget.take(wake):
        taken += 1
    return taken


def _round(budget: Budget, took_s: float) -> None:
    """All that may be in flight, once, and answers to it."""
    for _ in range(_fill(budget, lambda: None)):
        budget.give(took_s)


def test_it_grows_while_answers_are_quick_and_has_an_end() -> None:
    budget = Budget()
    _round(budget, QUICK_S / 2)
    assert budget.limit == FIRST + GROWTH
    for _ in range(100):
        _round(budget, QUICK_S / 2)
    assert budget.limit == MOST


def test_it_does_not_grow_by_answers_to_fewer_than_it_allows() -> None:
    budget = Budget()
    for _ in range(10 * FIRST):
        assert budget.take(_refuse)
        budget.give(QUICK_S / 2)
    assert budget.limit == FIRST


def test_it_shrinks_by_how_slow_answers_are_and_leaves_some() -> None:
    budget = Budget()
    for _ in range(FIRST):
        assert budget.take(_refuse)
        budget.give(QUICK_S * 1.25)
    assert budget.limit == int(FIRST / 1.25)
    for _ in range(20):
        _round(budget, 5.0)
    assert budget.limit == LEAST


def test_requests_without_an_answer_teach_nothing() -> None:
    budget = Budget()
    for _ in range(10 * FIRST):
        budget.take(_refuse)
        budget.give(None)
    assert budget.limit == FIRST


def test_who_is_refused_is_called_back_once_when_a_quarter_is_free_the_first_one_first() -> None:
    budget, woken = Budget(), []
    for _ in range(FIRST):
        assert budget.take(_refuse)
    assert not budget.take(lambda: woken.append("a"))
    assert not budget.take(lambda: woken.append("b"))
    for _ in range(FIRST // AT_ONCE - 1):
        budget.give(None)
    assert woken == []
    budget.give(None)
    assert woken == ["a", "b"]
    budget.give(None)
    assert woken == ["a", "b"]


def test_while_a_lease_waits_only_a_part_is_sent_and_then_all_again() -> None:
    budget, woken = Budget(), []
    budget.lease_asked()
    budget.lease_asked()
    part = max(LEAST, FIRST // LEASE_SHARE)
    assert _fill(budget, lambda: woken.append("a")) == part
    budget.lease_answered()
    assert woken == []
    budget.lease_answered()
    assert woken == ["a"]
    assert _fill(budget, lambda: None) == FIRST - part


def test_what_was_sent_before_a_lease_is_not_replaced_until_little_is_left() -> None:
    budget, woken = Budget(), []
    assert _fill(budget, lambda: woken.append("a")) == FIRST
    budget.lease_asked()
    part = max(LEAST, FIRST // LEASE_SHARE)
    for _ in range(FIRST - part):
        budget.give(None)
    assert woken == []
    for _ in range(part):
        budget.give(None)
    assert woken == ["a"]


@pytest.mark.parametrize("leases", [0, 1])
def test_nobody_waits_once_nothing_is_in_flight(leases: int) -> None:
    """At the least as well, where a quarter is one place."""
    budget, woken = Budget(), []
    for _ in range(20):
        _round(budget, 5.0)
    for _ in range(leases):
        budget.lease_asked()
    assert _fill(budget, lambda: woken.append("a")) == LEAST
    for _ in range(LEAST):
        budget.give(None)
    assert woken == ["a"]
