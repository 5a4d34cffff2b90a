"""All rules of one term, pure: (state, event, instant) -> (state, requests). Design.md section 4.

A `Term` is one attempt to acquire a lease and the term that it may become; it has one holder, never used again. The
timer thread owns each state; nothing here knows threads, stores or clocks. Instants are runtime seconds.

Not guaranteed: that a request whose answer never came is not executed later. `may_linger` says so at the end, and the
timer deletes such a row when it sees one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from strata_daemon.leader.store import Answer, Draw, Insert, Outcome, Release, Renew, Try
from strata_daemon.leader.timing import TRIES, Timing


class Phase(Enum):
    """Where a term stands. HELD is the only one in which anybody may work."""

    INSERTING = "inserting"
    DRAWING = "drawing"
    CONFIRMING = "confirming"
    HELD = "held"
    LOST = "lost"
    RELEASING = "releasing"
    ENDED = "ended"


# Why a term ended, or never began: metric labels and the `reason` of log lines.
OTHER_HOLDER = "other_holder"  # the insert was refused
UNANSWERED = "unanswered"  # no try of the insert was answered
LATE = "late"  # won, but too late to be confirmed in time
TAKEN = "taken"  # a renew was refused: another holder, or no row
DEADLINE = "deadline"  # no renewal in time
RELEASED = "released"  # given up by us
RELEASE_UNKNOWN = "release_unknown"  # given up, but the delete stayed unanswered: left to the TTL


@dataclass(frozen=True, slots=True)
class Cycle:
    """One statement with its repeats. `first_sent` counts for validity, whichever try is answered."""

    first_sent: float
    sent: float
    retry_at: float
    tries: frozenset[int]

    @property
    def latest(self) -> int:
        return max(self.tries)


@dataclass(frozen=True, slots=True)
class Term:
    """The state. `until`: when repeats of the present phase end. `confirmed_at`: first send of the last good cycle."""

    lease: str
    holder: str
    timing: Timing
    phase: Phase
    cycle: Cycle | None
    until: float
    tries: int = 0
    open_inserts: frozenset[int] = frozenset()
    seen: int | None = None
    token: int | None = None
    confirmed_at: float | None = None
    reason: str = ""
    row_gone: bool = False
    may_linger: bool = False
    early_s: float = 0.0

    @property
    def valid_until(self) -> float | None:
        """First send of the last good renewal cycle + TTL - rounding - skew - stop budget; None before the term."""
        return None if self.confirmed_at is None else self.confirmed_at + self.timing.window_s


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Leave:
    """No runner is inside: give the lease back, repeating until the instant `until`."""

    until: float


@dataclass(frozen=True, slots=True)
class Retime:
    """The store's allowance has changed."""

    timing: Timing


Event = Answer | Tick | Leave | Retime
Step = tuple[Term, tuple[Try, ...]]


def begin(
    lease: str, holder: str, timing: Timing, now: float, seen: int | None = None, *, early_s: float = 0.0
) -> Step:
    """Start an attempt. `holder` is new for each; `seen` is the last fence this process saw for the lease.

    `early_s`: how much sooner than the period the first renewal comes, so that leases taken together do not renew
    together for ever.
    """
    fresh = Term(lease, holder, timing, Phase.INSERTING, None, now + timing.window_s, seen=seen, early_s=early_s)
    return _send(fresh, now, new_cycle=True)


def next_at(term: Term) -> float | None:
    """When the next `Tick` is due; None when only an answer or a `Leave` can change the term."""
    match term.phase:
        case Phase.HELD:
            renew = term.cycle.retry_at if term.cycle else _renewal_at(term)
            return min(renew, _confirmed(term) + term.timing.window_s)
        case Phase.LOST | Phase.ENDED:
            return None
        case _:
            return min(term.until, term.cycle.retry_at) if term.cycle else term.until


def step(term: Term, event: Event, now: float) -> Step:
    """The next state and what to send. Deadlines come before the event: a late answer revives nothing."""
    if isinstance(event, Retime):
        term = replace(term, timing=event.timing)
    term, requests = _expire(term, now)
    if isinstance(event, Answer):
        term, more = _answered(term, event, now)
    elif isinstance(event, Leave):
        term, more = _leave(term, event.until, now)
    else:
        term, more = _repeat(term, now)
    return term, requests + more


def _expire(term: Term, now: float) -> Step:
    """Let deadlines act."""
    if term.phase is Phase.HELD:
        if now >= _confirmed(term) + term.timing.window_s:
            return replace(term, phase=Phase.LOST, reason=DEADLINE, cycle=None), ()
    elif term.phase in (Phase.INSERTING, Phase.DRAWING, Phase.CONFIRMING):
        if now >= term.until:
            return _give_up(term, UNANSWERED if term.phase is Phase.INSERTING else LATE, now)
    elif term.phase is Phase.RELEASING and now >= term.until:
        return replace(term, phase=Phase.ENDED, cycle=None, may_linger=True, reason=RELEASE_UNKNOWN), ()
    return term, ()


def _repeat(term: Term, now: float) -> Step:
    """Send what is due: a renewal, or a repeat of a try that counts as unknown by now."""
    if term.phase in (Phase.LOST, Phase.ENDED):
        return term, ()
    if term.cycle is None:
        if term.phase is Phase.HELD and now >= _renewal_at(term):
            return _send(term, now, new_cycle=True)
        return term, ()
    if now < term.cycle.retry_at:
        return term, ()
    if term.phase is Phase.INSERTING and len(term.cycle.tries) >= TRIES:
        return _give_up(term, UNANSWERED, now)
    return _send(term, now, new_cycle=False)


def _answered(term: Term, answer: Answer, now: float) -> Step:
    """Route an answer; those of another holder are none of ours."""
    if answer.request.holder != term.holder:
        return term, ()
    match answer.request:
        case Insert():
            return _insert_answered(term, answer, now)
        case Draw():
            return _draw_answered(term, answer, now)
        case Renew():
            return _renew_answered(term, answer, now)
        case Release():
            return _release_answered(term, answer, now)


def _insert_answered(term: Term, answer: Answer, now: float) -> Step:
    if answer.outcome is Outcome.UNKNOWN:
        return _unknown(term, answer, now)
    term = replace(term, open_inserts=term.open_inserts - {answer.request.try_no})
    is_ours = answer.outcome is Outcome.APPLIED or answer.holder == term.holder
    if term.phase is Phase.INSERTING:
        if is_ours:
            return _send(replace(term, phase=Phase.DRAWING), now, new_cycle=True)
        return _end(term, OTHER_HOLDER), ()
    if answer.outcome is Outcome.APPLIED and term.phase in (Phase.LOST, Phase.RELEASING, Phase.ENDED):
        # A twin ran late: the row may be there again although the term is over.
        term = replace(term, may_linger=True, row_gone=False)
        if term.phase is Phase.RELEASING:
            return _send(term, now, new_cycle=False)
    return term, ()


def _draw_answered(term: Term, answer: Answer, now: float) -> Step:
    if term.phase is not Phase.DRAWING or term.cycle is None or answer.request.try_no != term.cycle.latest:
        return term, ()
    if answer.outcome is Outcome.UNKNOWN:
        return _unknown(term, answer, now)
    if answer.outcome is Outcome.REFUSED:
        return _send(replace(term, seen=answer.fence), now, new_cycle=True)
    token = (term.seen or 0) + 1
    confirming = replace(term, phase=Phase.CONFIRMING, token=token, seen=token, until=now + term.timing.window_s)
    return _send(confirming, now, new_cycle=True)


def _renew_answered(term: Term, answer: Answer, now: float) -> Step:
    if term.phase not in (Phase.CONFIRMING, Phase.HELD):
        if answer.outcome is Outcome.REFUSED and term.phase is Phase.LOST:
            term = replace(term, row_gone=True)
        return term, ()
    if answer.outcome is Outcome.REFUSED:
        if term.phase is Phase.CONFIRMING:
            return _end(term, TAKEN), ()
        return replace(term, phase=Phase.LOST, reason=TAKEN, row_gone=True, cycle=None), ()
    if term.cycle is None or answer.request.try_no not in term.cycle.tries:
        return term, ()  # of an older cycle: dropped
    if answer.outcome is Outcome.UNKNOWN:
        return _unknown(term, answer, now)
    early_s = 0.0 if term.phase is Phase.HELD else term.early_s
    return replace(term, phase=Phase.HELD, confirmed_at=term.cycle.first_sent, cycle=None, early_s=early_s), ()


def _release_answered(term: Term, answer: Answer, now: float) -> Step:
    if term.phase is not Phase.RELEASING:
        return term, ()
    if answer.outcome is Outcome.UNKNOWN:
        return _unknown(term, answer, now)
    return _end(term, term.reason), ()


def _unknown(term: Term, answer: Answer, now: float) -> Step:
    """The store said that it does not know: repeat after a pause, never later than an unanswered try would be."""
    if term.cycle is None or answer.request.try_no != term.cycle.latest:
        return term, ()
    retry_at = min(term.cycle.retry_at, now + term.timing.pause_s)
    return replace(term, cycle=replace(term.cycle, retry_at=retry_at)), ()


def _leave(term: Term, until: float, now: float) -> Step:
    if term.phase in (Phase.RELEASING, Phase.ENDED):
        return term, ()
    if term.row_gone:
        return _end(term, term.reason), ()
    releasing = replace(term, phase=Phase.RELEASING, until=until, reason=term.reason or RELEASED)
    return _send(releasing, now, new_cycle=True)


def _give_up(term: Term, reason: str, now: float) -> Step:
    """An attempt that ended unknown or too late: its row, if there is one, must not stand until the TTL (V2)."""
    releasing = replace(term, phase=Phase.RELEASING, reason=reason, until=now + TRIES * term.timing.attempt_s)
    return _send(releasing, now, new_cycle=True)


def _end(term: Term, reason: str) -> Term:
    """Final. An insert without an answer may still create a row of ours (design.md: orphans)."""
    linger = term.may_linger or bool(term.open_inserts)
    return replace(term, phase=Phase.ENDED, reason=reason, cycle=None, may_linger=linger)


def _send(term: Term, now: float, *, new_cycle: bool) -> Step:
    """Send the statement of the present phase, as the first try of a cycle or as a repeat."""
    number = term.tries + 1
    old = None if new_cycle else term.cycle
    first_sent, tries = (old.first_sent, old.tries) if old else (now, frozenset[int]())
    cycle = Cycle(first_sent, now, now + term.timing.attempt_s, tries | {number})
    term = replace(term, tries=number, cycle=cycle)
    match term.phase:
        case Phase.INSERTING:
            term = replace(term, open_inserts=term.open_inserts | {number})
            return term, (Insert(term.lease, term.holder, number, term.timing.ttl_s),)
        case Phase.DRAWING:
            return term, (Draw(term.lease, term.holder, number, term.seen),)
        case Phase.RELEASING:
            return term, (Release(term.lease, term.holder, number),)
        case _:
            return term, (Renew(term.lease, term.holder, number, term.timing.ttl_s),)


def _renewal_at(term: Term) -> float:
    return _confirmed(term) + term.timing.renew_s - term.early_s


def _confirmed(term: Term) -> float:
    assert term.confirmed_at is not None  # HELD is entered with it
    return term.confirmed_at
