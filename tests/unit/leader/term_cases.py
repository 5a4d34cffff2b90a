"""The table of `leader/term.py`: (state, event, instant) -> (state, requests), a case a rule of design.md section 4.

A case is a list of rows, played in order on one term: instant, event, the phase expected after it, the tries expected
to be sent (statement and number), and what else must hold. TTL 30, renew 10, stop budget 2, no rounding, no skew: the
window is 28 s, an attempt 3 s, a pause 0.75 s. The same cases catch the mutants of `test_term_mutants.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from strata_daemon.leader.store import Allowance, Answer, Draw, Insert, Outcome, Release, Renew
from strata_daemon.leader.timing import Timing

TIMING = Timing(30, 10.0, 2.0)
LEASE, ME, OTHER = "gc-leader-0", "node-a/1/uuid-1", "node-b/2/uuid-2"

Make = Callable[[ModuleType], Any]


def tick(term: ModuleType) -> Any:
    return term.Tick()


def leave(until: float) -> Make:
    return lambda term: term.Leave(until)


def retime(timing: Timing) -> Make:
    return lambda term: term.Retime(timing)


def _request(statement: str, number: int, seen: int | None, holder: str) -> Any:
    match statement:
        case "insert":
            return Insert(LEASE, holder, number, 30)
        case "draw":
            return Draw(LEASE, holder, number, seen)
        case "renew":
            return Renew(LEASE, holder, number, 30)
        case _:
            return Release(LEASE, holder, number)


def applied(statement: str, number: int, *, seen: int | None = None, of: str = ME) -> Make:
    request = _request(statement, number, seen, of)
    fence = (seen or 0) + 1 if statement == "draw" else None
    return lambda _term: Answer(request, Outcome.APPLIED, fence=fence)


def refused(statement: str, number: int, *, by: str | None = None, fence: int | None = None, of: str = ME) -> Make:
    request = _request(statement, number, None, of)
    return lambda _term: Answer(request, Outcome.REFUSED, holder=by, fence=fence)


def unknown(statement: str, number: int) -> Make:
    request = _request(statement, number, None, ME)
    return lambda _term: Answer(request, Outcome.UNKNOWN)


@dataclass(frozen=True)
class Row:
    at: float
    event: Make | None
    phase: str
    sends: tuple[tuple[str, int], ...] = ()
    holds: dict[str, Any] = field(default_factory=dict)
    early_s: float = 0.0  # of a first row: what the attempt begins with


def row(at: float, event: Make | None, phase: str, *sends: tuple[str, int], **holds: Any) -> Row:
    return Row(at, event, phase, sends, holds)


BEGIN = row(0.0, None, "inserting", ("insert", 1))
DRAWN = [BEGIN, row(0.1, applied("insert", 1), "drawing", ("draw", 2))]
CONFIRMING = [*DRAWN, row(0.2, applied("draw", 2), "confirming", ("renew", 3), token=1)]
HELD = [*CONFIRMING, row(0.3, applied("renew", 3), "held", valid_until=28.2)]

CASES: dict[str, list[Row]] = {
    "the first renewal comes early by what the attempt was given, and only the first": [
        replace(BEGIN, early_s=4.0),
        *HELD[1:],
        row(6.1, tick, "held"),
        row(6.2, tick, "held", ("renew", 4)),
        row(6.3, applied("renew", 4), "held", valid_until=34.2),
        row(12.3, tick, "held"),
        row(16.1, tick, "held"),
        row(16.2, tick, "held", ("renew", 5)),
    ],
    "an insert that is applied leads to the draw of a token": DRAWN,
    "the token comes after the insert and before the confirming renew": CONFIRMING,
    "the term begins with the confirming renew and counts from its send": HELD,
    "a term that was not confirmed has no validity": [*CONFIRMING, row(0.25, tick, "confirming", valid_until=None)],
    "an insert refused by another holder ends the attempt": [
        BEGIN,
        row(0.1, refused("insert", 1, by=OTHER), "ended", reason="other_holder", may_linger=False),
    ],
    "an insert refused by a row without a holder ends the attempt": [
        BEGIN,
        row(0.1, refused("insert", 1, by=None), "ended", reason="other_holder"),
    ],
    "an insert refused by our own holder was applied": [
        BEGIN,
        row(3.0, tick, "inserting", ("insert", 2)),
        row(3.1, refused("insert", 2, by=ME), "drawing", ("draw", 3)),
    ],
    "an unanswered insert is repeated after one attempt time-out": [
        BEGIN,
        row(2.9, tick, "inserting"),
        row(3.0, tick, "inserting", ("insert", 2)),
        row(5.9, tick, "inserting"),
        row(6.0, tick, "inserting", ("insert", 3)),
    ],
    "an insert is tried three times and then given up with a release": [
        BEGIN,
        row(3.0, tick, "inserting", ("insert", 2)),
        row(6.0, tick, "inserting", ("insert", 3)),
        row(8.9, tick, "inserting"),
        row(9.0, tick, "releasing", ("release", 4), reason="unanswered"),
        row(9.1, refused("release", 4), "ended", may_linger=True, reason="unanswered"),
    ],
    "an insert said to be unknown is repeated after a pause": [
        BEGIN,
        row(0.1, unknown("insert", 1), "inserting"),
        row(0.8, tick, "inserting"),
        row(0.85, tick, "inserting", ("insert", 2)),
    ],
    "an unknown that comes late does not put the repeat off": [
        BEGIN,
        row(2.9, unknown("insert", 1), "inserting"),
        row(3.0, tick, "inserting", ("insert", 2)),
    ],
    "an unknown insert is no refusal": [
        BEGIN,
        row(0.1, unknown("insert", 1), "inserting"),
        row(0.2, applied("insert", 1), "drawing", ("draw", 2)),
    ],
    "a late answer to an earlier try of the same insert counts": [
        BEGIN,
        row(3.0, tick, "inserting", ("insert", 2)),
        row(3.1, applied("insert", 1), "drawing", ("draw", 3)),
    ],
    "a refused insert whose twin is unanswered may linger": [
        BEGIN,
        row(3.0, tick, "inserting", ("insert", 2)),
        row(3.1, refused("insert", 2, by=OTHER), "ended", may_linger=True),
    ],
    "a released term with an unanswered insert may linger": [
        BEGIN,
        row(3.0, tick, "inserting", ("insert", 2)),
        row(3.1, applied("insert", 2), "drawing", ("draw", 3)),
        row(3.2, applied("draw", 3), "confirming", ("renew", 4)),
        row(3.3, applied("renew", 4), "held", valid_until=31.2),
        row(4.0, leave(24.0), "releasing", ("release", 5)),
        row(4.1, applied("release", 5), "ended", may_linger=True, reason="released"),
    ],
    "a twin that is applied while the release is under way is released again": [
        BEGIN,
        row(3.0, tick, "inserting", ("insert", 2)),
        row(3.1, applied("insert", 2), "drawing", ("draw", 3)),
        row(3.2, leave(23.0), "releasing", ("release", 4)),
        row(3.3, applied("insert", 1), "releasing", ("release", 5)),
        row(3.4, applied("release", 4), "ended", may_linger=True),
    ],
    "an attempt that takes longer than the window is given up": [
        *DRAWN,
        row(28.0, applied("draw", 2), "releasing", ("release", 3), reason="late"),
    ],
    "a token that another drew is drawn again from the number that stands": [
        *DRAWN,
        row(0.2, refused("draw", 2, fence=7), "drawing", ("draw", 3), seen=7),
        row(0.3, applied("draw", 3, seen=7), "confirming", ("renew", 4), token=8),
    ],
    "an unanswered draw goes on from the number seen": [
        *DRAWN,
        row(3.1, tick, "drawing", ("draw", 3), seen=None),
        row(3.2, refused("draw", 3, fence=1), "drawing", ("draw", 4), seen=1),
        row(3.3, applied("draw", 4, seen=1), "confirming", ("renew", 5), token=2),
    ],
    "a late answer to an older draw is dropped": [
        *DRAWN,
        row(3.1, tick, "drawing", ("draw", 3)),
        row(3.2, refused("draw", 3, fence=4), "drawing", ("draw", 4), seen=4),
        row(3.3, applied("draw", 2), "drawing", token=None, seen=4),
        row(3.4, applied("draw", 4, seen=4), "confirming", ("renew", 5), token=5),
    ],
    "an unknown draw gives no token": [
        *DRAWN,
        row(0.2, unknown("draw", 2), "drawing", token=None),
        row(0.95, tick, "drawing", ("draw", 3)),
    ],
    "a confirming renew that is refused ends the attempt without a release": [
        *CONFIRMING,
        row(0.3, refused("renew", 3, by=OTHER), "ended", reason="taken"),
    ],
    "a confirming renew is repeated and still counts from its first send": [
        *CONFIRMING,
        row(3.2, tick, "confirming", ("renew", 4)),
        row(3.3, applied("renew", 4), "held", valid_until=28.2),
    ],
    "a confirming renew that stays unanswered is given up at the window": [
        *CONFIRMING,
        *[row(0.2 + 3 * i, tick, "confirming", ("renew", 3 + i)) for i in range(1, 10)],
        row(28.2, applied("renew", 12), "releasing", ("release", 13), reason="late"),
    ],
    "a renewal is due one renew period after the first send of the last good cycle": [
        *HELD,
        row(10.1, tick, "held"),
        row(10.2, tick, "held", ("renew", 4)),
        row(10.3, applied("renew", 4), "held", valid_until=38.2),
        row(20.2, tick, "held", ("renew", 5)),
    ],
    "a renewal counts from the first send of its cycle whichever try is answered": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(13.2, tick, "held", ("renew", 5)),
        row(16.2, tick, "held", ("renew", 6)),
        row(16.3, applied("renew", 6), "held", valid_until=38.2),
    ],
    "the answer to the first try counts after a second was sent": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(13.2, tick, "held", ("renew", 5)),
        row(13.3, applied("renew", 4), "held", valid_until=38.2),
    ],
    "an unanswered renewal is repeated until the deadline and no longer": [
        *HELD,
        *[row(10.2 + 3 * i, tick, "held", ("renew", 4 + i)) for i in range(6)],
        row(28.1, tick, "held", valid_until=28.2),
        row(28.2, tick, "lost", reason="deadline"),
        row(31.2, tick, "lost"),
    ],
    "an unknown renewal does not end the term": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(10.3, unknown("renew", 4), "held", valid_until=28.2),
        row(11.0, tick, "held"),
        row(11.05, tick, "held", ("renew", 5)),
        row(11.1, applied("renew", 5), "held", valid_until=38.2),
    ],
    "an unknown renewal does not extend the term": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(10.3, unknown("renew", 4), "held", valid_until=28.2),
    ],
    "a refused renewal ends the term at once": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(10.3, refused("renew", 4, by=OTHER), "lost", reason="taken", row_gone=True),
    ],
    "a renewal refused because the row is missing ends the term at once": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(10.3, refused("renew", 4), "lost", reason="taken"),
    ],
    "after a refusal no later answer is reached in the same term": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(13.2, tick, "held", ("renew", 5)),
        row(13.3, refused("renew", 4, by=OTHER), "lost"),
        row(13.4, applied("renew", 5), "lost", valid_until=28.2),
        row(14.0, tick, "lost"),
    ],
    "a late refusal of an older cycle ends the term too": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(13.2, tick, "held", ("renew", 5)),
        row(13.3, applied("renew", 5), "held", valid_until=38.2),
        row(13.4, refused("renew", 4, by=OTHER), "lost", reason="taken"),
    ],
    "a late answer of an older cycle extends nothing": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(13.2, tick, "held", ("renew", 5)),
        row(13.3, applied("renew", 5), "held", valid_until=38.2),
        row(20.2, tick, "held", ("renew", 6)),
        row(20.3, applied("renew", 4), "held", valid_until=38.2),
    ],
    "an answer that comes at the deadline revives nothing": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(28.2, applied("renew", 4), "lost", reason="deadline", valid_until=28.2),
    ],
    "a lost term is not released before its runner left": [
        *HELD,
        row(28.2, tick, "lost"),
        row(60.0, tick, "lost"),
    ],
    "a term lost by its deadline is released once its runner left": [
        *HELD,
        row(28.2, tick, "lost"),
        row(30.0, leave(50.0), "releasing", ("release", 4), reason="deadline"),
        row(30.1, refused("release", 4, by=OTHER), "ended", reason="deadline"),
    ],
    "a term whose row is another's is not released": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(10.3, refused("renew", 4, by=OTHER), "lost"),
        row(11.0, leave(31.0), "ended", reason="taken"),
    ],
    "a term is renewed until its runner has left": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(10.3, applied("renew", 4), "held"),
        row(11.0, leave(31.0), "releasing", ("release", 5)),
    ],
    "no renewal is sent after a release": [
        *HELD,
        row(5.0, leave(25.0), "releasing", ("release", 4)),
        row(8.0, tick, "releasing", ("release", 5)),
        row(11.0, tick, "releasing", ("release", 6)),
    ],
    "a renewal answered after the release was sent revives nothing": [
        *HELD,
        row(10.2, tick, "held", ("renew", 4)),
        row(10.3, leave(30.0), "releasing", ("release", 5)),
        row(10.4, applied("renew", 4), "releasing", valid_until=28.2),
    ],
    "an unknown release is repeated after a pause": [
        *HELD,
        row(5.0, leave(25.0), "releasing", ("release", 4)),
        row(5.1, unknown("release", 4), "releasing"),
        row(5.85, tick, "releasing", ("release", 5)),
    ],
    "a release that finds no row is done": [
        *HELD,
        row(5.0, leave(25.0), "releasing", ("release", 4)),
        row(5.1, refused("release", 4), "ended", reason="released", may_linger=False),
    ],
    "a release ends at its limit and is left to the TTL": [
        *HELD,
        row(5.0, leave(9.0), "releasing", ("release", 4)),
        row(8.0, tick, "releasing", ("release", 5)),
        row(9.0, tick, "ended", reason="release_unknown", may_linger=True),
    ],
    "a stop in mid-attempt releases what may have been won": [
        BEGIN,
        row(0.5, leave(20.5), "releasing", ("release", 2), reason="released"),
        row(0.6, refused("release", 2), "ended", may_linger=True),
    ],
    "ended is final": [
        BEGIN,
        row(0.1, refused("insert", 1, by=OTHER), "ended"),
        row(0.2, applied("insert", 1), "ended", may_linger=True),
        row(0.3, leave(9.0), "ended"),
        row(30.0, tick, "ended"),
    ],
    "an answer of another attempt is dropped": [
        BEGIN,
        row(0.1, applied("insert", 1, of="node-a/1/uuid-0"), "inserting"),
        row(0.2, refused("insert", 1, by=OTHER, of="node-a/1/uuid-0"), "inserting"),
    ],
    "the store's allowance shortens a validity that stands already": [
        *HELD,
        row(1.0, retime(Timing(30, 10.0, 2.0, Allowance(1.0, 4.0))), "held", valid_until=23.2),
        row(23.2, tick, "lost", reason="deadline"),
    ],
    "an allowance that eats the whole validity ends the term at once": [
        *HELD,
        row(15.0, retime(Timing(30, 10.0, 2.0, Allowance(1.0, 14.0))), "lost", reason="deadline"),
    ],
    "every insert and renewal carries the whole TTL": [
        BEGIN,
        row(0.1, applied("insert", 1), "drawing", ("draw", 2)),
        row(0.2, applied("draw", 2), "confirming", ("renew", 3)),
        row(0.3, applied("renew", 3), "held"),
        row(10.2, tick, "held", ("renew", 4)),
    ],
}


def play(term: ModuleType, rows: list[Row]) -> None:
    """Play a case on a module with the names of `leader/term.py`; AssertionError says which row failed."""
    first = rows[0]
    state, requests = term.begin(LEASE, ME, TIMING, first.at, early_s=first.early_s)
    for number, each in enumerate(rows):
        if number:
            assert each.event is not None
            state, requests = term.step(state, each.event(term), each.at)
        where = f"row {number} at {each.at}"
        assert state.phase.value == each.phase, f"{where}: {state.phase.value}, expected {each.phase}"
        sent = tuple((type(request).__name__.lower(), request.try_no) for request in requests)
        assert sent == each.sends, f"{where}: sent {sent}, expected {each.sends}"
        for request in requests:
            _check_request(request, state, where)
        for name, value in each.holds.items():
            got = getattr(state, name)
            same = abs(got - value) < 1e-9 if isinstance(value, float) and got is not None else got == value
            assert same, f"{where}: {name} is {got!r}, expected {value!r}"
        _check_next(term, state, each.at, where)


def _check_request(request: Any, state: Any, where: str) -> None:
    assert request.holder == ME and request.lease == LEASE, f"{where}: {request}"
    if isinstance(request, Insert | Renew):
        assert request.ttl_s == 30, f"{where}: TTL {request.ttl_s}"
    if isinstance(request, Draw):
        assert request.seen == state.seen, f"{where}: draws from {request.seen}, seen {state.seen}"


def _check_next(term: ModuleType, state: Any, at: float, where: str) -> None:
    """The next tick is asked for in time: a term that can expire or must repeat never sleeps past it."""
    due = term.next_at(state)
    if state.phase.value in ("lost", "ended"):
        assert due is None, f"{where}: {due}"
    else:
        assert due is not None and due > at, f"{where}: next tick at {due}"
        if state.phase.value == "held":
            assert due <= state.valid_until, f"{where}: sleeps past {state.valid_until}"
