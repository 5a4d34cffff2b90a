"""What looks free, and what is read to find out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from strata_daemon.leader.store import LeaseRow, LeaseRows, ReadLeases, ReadSignals, Released, SignalRows
from strata_daemon.leader.watch import RESERVED_S, Watch

POLL_S = 5.0


def _watch() -> Watch:
    return Watch(POLL_S, lambda: 0.5)


def _rows(watch: Watch, now: float, **rows: LeaseRow) -> bool:
    return watch.on_rows(LeaseRows(ReadLeases(tuple(rows) or ("a",)), rows), now)


def _gone(watch: Watch, lease: str, now: float) -> bool:
    return watch.on_rows(LeaseRows(ReadLeases((lease,)), {}), now)


def _signals(watch: Watch, now: float, node: str, *releases: tuple[int, str, bool]) -> bool:
    rows: dict[str, Sequence[Released]] = {node: [Released(*each) for each in releases]}
    return watch.on_signals(SignalRows(ReadSignals(), rows), now)


def _reads(watch: Watch, now: float) -> list[tuple[str, ...]]:
    return [each.leases for each in watch.due(now) if isinstance(each, ReadLeases)]


def test_a_new_name_is_read_at_once() -> None:
    watch = _watch()
    watch.want(["a", "b"], 10.0)
    assert _reads(watch, 10.0) == [("a", "b")]


def test_a_missing_row_looks_free_and_a_row_does_not() -> None:
    watch = _watch()
    watch.want(["a"], 10.0)
    assert not _rows(watch, 10.0, a=LeaseRow("n/1/u", 20.0))
    assert not watch.free
    assert _gone(watch, "a", 31.0)
    assert watch.free["a"].since == 31.0
    assert watch.free["a"].left_by == "n"


def test_a_row_that_went_before_its_end_was_released_by_whom_its_signal_tells() -> None:
    watch = _watch()
    watch.want(["a"], 10.0)
    _signals(watch, 10.0, "n", (1, "b", False))
    _rows(watch, 10.0, a=LeaseRow("n/1/u", 20.0))
    assert _gone(watch, "a", 15.0)
    assert watch.free["a"].left_by is None
    assert _signals(watch, 15.2, "n", (2, "a", True))
    assert watch.free["a"].left_by == "n"
    assert watch.free["a"].since == 15.0
    assert watch.free["a"].reserved_until == 15.2 + RESERVED_S


def test_a_row_without_a_holder_is_not_free() -> None:
    """An insert's marker refuses everybody until it runs out."""
    watch = _watch()
    watch.want(["a"], 10.0)
    assert not _rows(watch, 10.0, a=LeaseRow(None, 3.0))


def test_a_waited_lease_is_read_at_the_sooner_of_its_end_and_the_poll_period() -> None:
    watch = _watch()
    watch.want(["a"], 10.0)
    watch.due(10.0)
    _rows(watch, 10.0, a=LeaseRow("n/1/u", 2.0))
    assert _reads(watch, 12.2) == []
    assert _reads(watch, 12.25) == [("a",)]
    _rows(watch, 12.25, a=LeaseRow("n/1/u", 20.0))
    assert _reads(watch, 17.2) == []
    assert _reads(watch, 17.25) == [("a",)]


def test_a_row_that_never_ends_is_read_each_poll_and_no_more() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    watch.due(0.0)
    _rows(watch, 0.0, a=LeaseRow("n/1/u", None))
    assert _reads(watch, 4.9) == []
    assert _reads(watch, 5.0) == [("a",)]


def test_a_failed_read_is_repeated_after_a_second_and_nothing_looks_free() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    watch.due(0.0)
    assert not watch.on_rows(LeaseRows(ReadLeases(("a",)), None), 0.5)
    assert not watch.free
    assert _reads(watch, 1.4) == []
    assert _reads(watch, 1.5) == [("a",)]


def test_a_read_that_is_never_answered_is_asked_again() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    assert _reads(watch, 0.0) == [("a",)]
    assert _reads(watch, 3.0) == [("a",)]


def test_a_read_asks_for_at_most_a_hundred_names() -> None:
    watch = _watch()
    watch.want([f"gc-leader-{i}" for i in range(250)], 0.0)
    assert [len(names) for names in _reads(watch, 0.0)] == [100, 100, 50]


def test_a_signal_frees_a_waited_lease_at_once() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    assert not _signals(watch, 0.0, "n", (1, "b", False))
    assert _signals(watch, 5.0, "n", (2, "a", False))
    assert watch.free["a"].left_by == "n"
    assert watch.free["a"].reserved_until == 0.0


def test_a_surplus_is_reserved() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    _signals(watch, 0.0, "n", (1, "b", False))
    assert _signals(watch, 5.0, "n", (2, "a", True))
    assert watch.free["a"].reserved_until == 5.0 + RESERVED_S


def test_what_was_released_before_our_first_look_says_nothing() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    assert not _signals(watch, 0.0, "n", (1, "a", False), (2, "a", False))
    assert not watch.free


def test_a_node_that_appears_later_counts_from_its_first_release() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    _signals(watch, 0.0, "n", (1, "b", False))
    assert _signals(watch, 5.0, "m", (1, "a", False))


def test_signals_are_read_each_half_second_while_something_is_waited_for_and_each_second_else() -> None:
    watch = _watch()
    assert [type(each) for each in watch.due(0.0)] == [ReadSignals]
    assert watch.next_at() == 1.0
    watch.want(["a"], 0.1)
    watch.due(0.6)
    assert not [each for each in watch.due(1.0) if isinstance(each, ReadSignals)]
    assert [type(each) for each in watch.due(1.1)] == [ReadSignals]


def test_a_refused_attempt_looks_taken_until_the_next_read() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    watch.due(0.0)
    _gone(watch, "a", 0.0)
    watch.refused("a", "n/1/u", 0.1)
    assert not watch.free
    assert _reads(watch, 5.1) == [("a",)]


def test_an_attempt_that_failed_without_a_holder_is_looked_at_after_a_second() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    watch.due(0.0)
    _gone(watch, "a", 0.0)
    watch.refused("a", None, 0.1)
    assert _reads(watch, 1.1) == [("a",)]


def test_what_looks_free_is_read_again_before_a_rank_is_over() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    watch.due(0.0)
    _signals(watch, 0.0, "n", (1, "b", False))
    _rows(watch, 0.0, a=LeaseRow("n/1/u", 20.0))
    _signals(watch, 1.0, "n", (2, "a", False))
    assert _reads(watch, 1.25) == [("a",)]
    assert _rows(watch, 1.26, a=LeaseRow("m/1/u", 30.0)), "a change, so that candidates hear of it"
    assert not watch.free


def test_a_name_that_is_waited_for_no_more_is_forgotten() -> None:
    watch = _watch()
    watch.want(["a"], 0.0)
    _gone(watch, "a", 0.0)
    watch.want([], 1.0)
    assert not watch.free
    assert not _signals(watch, 2.0, "n", (1, "a", False))


def test_many_waited_leases_are_read_together_once_a_period() -> None:
    """An idle standby costs a read a period for each hundred leases, not one for each lease."""
    jitters = itertools.cycle([0.0, 0.3, 0.9, 0.1, 0.7])
    watch = Watch(5.0, lambda: next(jitters))
    watch.want([f"lease-{i}" for i in range(150)], 0.0)
    reads = 0
    for step in range(500):
        now = step / 10
        for request in watch.due(now):
            if isinstance(request, ReadLeases):
                reads += 1
                rows = {name: LeaseRow("n/1/u", 25.0 + step % 7) for name in request.leases}
                watch.on_rows(LeaseRows(request, rows), now)
    assert 18 <= reads <= 22
