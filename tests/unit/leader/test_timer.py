"""The timer thread, turned by hand: terms, orphans, the watch, the last resort."""

from __future__ import annotations

from strata_daemon.leader.store import (
    Allowance,
    Draw,
    Insert,
    LeaseRow,
    Outcome,
    ReadLeases,
    Release,
    Released,
    Renew,
    Signal,
)
from strata_daemon.leader.term import DEADLINE, OTHER_HOLDER, TAKEN, UNANSWERED, Phase
from tests.unit.leader.by_hand import START, Bench

LEASE = "gc-leader-0"


def test_a_term_that_was_won_shows_holder_token_and_validity() -> None:
    bench = Bench()
    handle = bench.hold(bench.candidacy(LEASE), LEASE)
    view = handle.view()
    assert view.phase is Phase.HELD
    assert view.token == 1
    assert view.valid_until == 128.0
    node, pid, unique = view.holder.split("/")
    assert node == "node-a" and pid.isdigit() and len(unique) == 36
    assert bench.wake.is_set()


def test_each_attempt_has_a_holder_of_its_own() -> None:
    """faults.md 7."""
    bench = Bench()
    candidacy = bench.candidacy(LEASE)
    holders = set()
    for _ in range(3):
        candidacy.request_acquire(LEASE)
        bench.turn()
        (insert,) = bench.take(Insert)
        holders.add(insert.holder)
        bench.answer(insert, Outcome.REFUSED, holder="node-b/1/x")
    assert len(holders) == 3


def test_a_token_goes_on_from_the_last_number_seen() -> None:
    bench = Bench()
    candidacy = bench.candidacy(LEASE)
    first = bench.hold(candidacy, LEASE)
    bench.timer.leave(first, 20.0)
    bench.turn()
    bench.answer(bench.take(Release)[0], Outcome.APPLIED)
    second = candidacy.request_acquire(LEASE)
    bench.turn()
    bench.answer(bench.take(Insert)[0], Outcome.APPLIED)
    (draw,) = bench.take(Draw)
    assert draw.seen == 1
    assert draw.drawn_at is not None and draw.drawn_at > START
    bench.answer(draw, Outcome.APPLIED)
    bench.answer(bench.take(Renew)[0], Outcome.APPLIED)
    assert second.view().token == 2


def test_a_release_that_was_applied_is_signalled_with_its_kind() -> None:
    bench = Bench()
    handle = bench.hold(bench.candidacy(LEASE), LEASE)
    bench.timer.leave(handle, 20.0, surplus=True)
    bench.turn()
    bench.take(Signal, 0)
    bench.answer(bench.take(Release)[0], Outcome.APPLIED)
    assert handle.ended.is_set()
    bench.turn()
    assert bench.take(Signal) == [Signal("node-a", LEASE, True)]


def test_a_release_that_stays_unknown_is_not_signalled() -> None:
    bench = Bench()
    handle = bench.hold(bench.candidacy(LEASE), LEASE)
    bench.timer.leave(handle, 2.0)
    bench.turn()
    bench.take(Release)
    bench.turn(2.0)
    assert handle.ended.is_set()
    bench.turn()
    bench.take(Signal, 0)


def test_a_lost_term_sets_lost_once_with_its_reason_and_no_release_is_sent() -> None:
    """faults.md 3 and 15."""
    bench = Bench()
    handle = bench.hold(bench.candidacy(LEASE), LEASE)
    bench.turn(28.0)
    assert handle.lost.is_set()
    assert handle.view().reason == DEADLINE
    bench.take(Release, 0)
    bench.turn(30.0)
    bench.take(Release, 0)
    assert not handle.ended.is_set()
    assert bench.timer.handles() == [handle]


def test_a_refused_renewal_is_told_at_once() -> None:
    """faults.md 1."""
    bench = Bench()
    handle = bench.hold(bench.candidacy(LEASE), LEASE)
    bench.turn(10.0)
    bench.answer(bench.take(Renew)[0], Outcome.REFUSED, holder="node-b/1/x")
    assert handle.lost.is_set()
    assert handle.view().reason == TAKEN


def test_a_row_of_an_attempt_that_was_given_up_is_deleted_when_it_is_seen() -> None:
    """V2: the phantom lease."""
    bench = Bench()
    candidacy = bench.candidacy(LEASE)
    handle = candidacy.request_acquire(LEASE)
    bench.turn()
    (insert,) = bench.take(Insert)
    for _ in range(3):
        bench.turn(3.0)
    bench.take(Insert, 2)
    assert handle.view().reason == UNANSWERED
    (release,) = bench.take(Release)
    bench.answer(release, Outcome.REFUSED)
    assert handle.ended.is_set()
    bench.rows([LEASE], {LEASE: LeaseRow(insert.holder, 29.0)})
    bench.turn()
    (orphan,) = bench.take(Release)
    assert orphan.holder == insert.holder
    bench.answer(orphan, Outcome.APPLIED)
    assert bench.metrics.orphans._value.get() == 1


def test_an_insert_that_is_applied_after_its_attempt_ended_is_deleted_at_once() -> None:
    bench = Bench()
    candidacy = bench.candidacy(LEASE)
    candidacy.request_acquire(LEASE)
    bench.turn()
    (insert,) = bench.take(Insert)
    bench.turn(3.0)
    (second,) = bench.take(Insert)
    bench.answer(second, Outcome.REFUSED, holder="node-b/1/x")
    bench.answer(insert, Outcome.APPLIED)
    bench.turn()
    (orphan,) = bench.take(Release)
    assert orphan.holder == insert.holder


def test_an_orphan_named_in_a_refusal_is_deleted() -> None:
    bench = Bench()
    candidacy = bench.candidacy(LEASE)
    candidacy.request_acquire(LEASE)
    bench.turn()
    (insert,) = bench.take(Insert)
    bench.turn(3.0)
    bench.answer(bench.take(Insert)[0], Outcome.REFUSED, holder="node-b/1/x")
    candidacy.request_acquire(LEASE)
    bench.turn()
    bench.answer(bench.take(Insert)[0], Outcome.REFUSED, holder=insert.holder)
    bench.turn()
    assert bench.take(Release)[0].holder == insert.holder


def test_a_row_of_a_living_term_is_left_alone() -> None:
    bench = Bench()
    handle = bench.hold(bench.candidacy(LEASE), LEASE)
    bench.rows([LEASE], {LEASE: LeaseRow(handle.view().holder, 29.0)})
    bench.rows([LEASE], {LEASE: LeaseRow("node-a/1/of-a-former-process", 29.0)})
    bench.turn()
    bench.take(Release, 0)


def test_a_refusal_tells_the_watch_who_holds_the_lease() -> None:
    bench = Bench()
    candidacy = bench.candidacy(LEASE)
    bench.rows([LEASE], {})
    assert [free.lease for free in candidacy.free()] == [LEASE]
    handle = candidacy.request_acquire(LEASE)
    bench.turn()
    bench.answer(bench.take(Insert)[0], Outcome.REFUSED, holder="node-b/1/x")
    assert handle.view().reason == OTHER_HOLDER
    assert candidacy.free() == ()


def test_a_signal_wakes_the_candidate() -> None:
    bench = Bench()
    candidacy = bench.candidacy(LEASE)
    bench.signals({"node-b": [Released(1, "other", False)]})
    bench.wake.clear()
    bench.signals({"node-b": [Released(2, LEASE, False)]})
    assert bench.wake.is_set()
    assert candidacy.free()[0].left_by == "node-b"


def test_a_standby_sends_no_conditional_statement_while_the_holder_lives() -> None:
    bench = Bench()
    bench.candidacy(LEASE)
    for _ in range(40):
        bench.rows([LEASE], {LEASE: LeaseRow("node-b/1/x", 25.0)})
        bench.turn(0.5)
    bench.take(Insert, 0)


def test_renewals_of_many_leases_go_out_as_one_batch() -> None:
    bench = Bench()
    leases = [f"gc-leader-{i}" for i in range(5)]
    candidacy = bench.candidacy(*leases)
    for lease in leases:
        bench.hold(candidacy, lease)
    bench.turn(10.0)
    bench.take(Renew, 5)


def test_a_store_whose_allowance_grows_shortens_every_validity() -> None:
    bench = Bench()
    handle = bench.hold(bench.candidacy(LEASE), LEASE)
    bench.store.limits = Allowance(1.0, 4.0)
    bench.turn(1.0)
    assert handle.view().valid_until == 123.0
    assert handle.view().window_s == 23.0


def test_the_last_resort_is_pushed_out_while_terms_live_and_called_off_after() -> None:
    bench = Bench()
    handle = bench.hold(bench.candidacy(LEASE), LEASE)
    assert bench.runtime.resorts == [150.0]
    bench.turn(4.5)
    bench.turn(0.5)
    assert bench.runtime.resorts == [150.0, 155.0]
    bench.timer.leave(handle, 20.0)
    bench.turn()
    bench.answer(bench.take(Release)[0], Outcome.APPLIED)
    assert bench.runtime.resorts[-1] is None


def test_a_new_candidacy_is_read_at_once_and_a_closed_one_no_more() -> None:
    bench = Bench()
    candidacy = bench.candidacy(LEASE)
    assert bench.take(ReadLeases)[0].leases == (LEASE,)
    candidacy.close()
    bench.turn(6.0)
    bench.turn(6.0)
    bench.take(ReadLeases, 0)
