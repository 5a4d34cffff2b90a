"""How many bulk requests are in flight: as many as are answered quickly (faults.md 45)."""

from __future__ import annotations

import pytest

from strata_daemon.stores.cassandra.budget import FIRST, GROWTH, LEAST, MOST, QUICK_S, Budget


def _refuse() -> None:
    pytest.fail("called back without having been refused")


def _round(budget: Budget, took_s: float) -> None:
    """As many answers as may be in flight, and one more, since the number is not always whole."""
    for _ in range(budget.limit + 1):
        assert budget.take(_refuse)
        budget.give(took_s)


def test_it_grows_while_answers_are_quick_and_has_an_end() -> None:
    budget = Budget()
    _round(budget, QUICK_S / 2)
    assert budget.limit == FIRST + GROWTH
    for _ in range(100):
        _round(budget, QUICK_S / 2)
    assert budget.limit == MOST


def test_it_shrinks_by_how_slow_answers_are_and_leaves_some() -> None:
    budget = Budget()
    _round(budget, QUICK_S * 1.25)
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


def test_who_is_refused_is_called_back_once_when_there_is_room_the_first_one_first() -> None:
    budget, woken = Budget(), []
    for _ in range(FIRST):
        assert budget.take(_refuse)
    assert not budget.take(lambda: woken.append("a"))
    assert not budget.take(lambda: woken.append("b"))
    budget.give(None)
    assert woken == ["a"]
    budget.give(None)
    budget.give(None)
    assert woken == ["a", "b"]
