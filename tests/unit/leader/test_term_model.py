"""The lease rules against a model of the store: under any order of events, no two terms of a lease are valid at once.

Requests may be executed late, in any order, or never; answers may be late or lost; clocks of the store's nodes differ
by up to the allowance, and expiry is in whole seconds as Cassandra keeps it (facts I.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_daemon.leader.store import Allowance, Answer, Draw, Insert, Outcome, Release, Renew, Try
from strata_daemon.leader.term import Leave, Phase, Step, Term, Tick, begin, step
from strata_daemon.leader.timing import Timing

SKEW_S = 2.0
TIMING = Timing(12, 2.0, 1.0, Allowance(1.0, SKEW_S))
PROCESSES = 3


@dataclass
class Model:
    """One lease, its store, and three processes that contend for it."""

    now: float = 1000.0
    row: tuple[str, int] | None = None
    fence: int | None = None
    sent: list[Try] = field(default_factory=list)
    replies: list[Answer] = field(default_factory=list)
    terms: list[Term | None] = field(default_factory=lambda: [None] * PROCESSES)
    seen: list[int | None] = field(default_factory=lambda: [None] * PROCESSES)
    tokens: list[int] = field(default_factory=list)
    attempts: int = 0

    def take(self, process: int, result: Step) -> None:
        old, (term, requests) = self.terms[process], result
        self.sent.extend(requests)
        self.terms[process] = term
        if term.phase is Phase.HELD and (old is None or old.phase is not Phase.HELD):
            assert term.token is not None
            assert all(term.token > earlier for earlier in self.tokens), "a later term has a higher token"
            self.tokens.append(term.token)

    def start(self, process: int) -> None:
        term = self.terms[process]
        if term is None or term.phase is Phase.ENDED:
            self.attempts += 1
            holder = f"node-{process}/1/{self.attempts}"
            self.terms[process] = None
            self.take(process, begin("lease", holder, TIMING, self.now, self.seen[process]))

    def event(self, process: int, event: Any) -> None:
        term = self.terms[process]
        if term is not None:
            self.take(process, step(term, event, self.now))

    def execute(self, index: int, ahead_s: float) -> None:
        """A node whose clock is `ahead_s` ahead executes a request; its answer is on the way then."""
        request = self.sent.pop(index)
        second = math.floor(self.now + ahead_s)
        live = self.row if self.row is not None and self.row[1] > second else None
        holder = live[0] if live else None
        match request:
            case Insert():
                if live is None:
                    self.row = (request.holder, second + request.ttl_s)
                self._reply(request, live is None, holder)
            case Renew():
                if holder == request.holder:
                    self.row = (request.holder, second + request.ttl_s)
                self._reply(request, holder == request.holder, holder)
            case Release():
                if holder == request.holder:
                    self.row = None
                self._reply(request, holder == request.holder, holder)
            case Draw():
                is_right = self.fence == request.seen
                if is_right:
                    self.fence = (self.fence or 0) + 1
                self._reply(request, is_right, None)

    def _reply(self, request: Try, is_applied: bool, holder: str | None) -> None:
        fence = self.fence if isinstance(request, Draw) else None
        outcome = Outcome.APPLIED if is_applied else Outcome.REFUSED
        self.replies.append(Answer(request, outcome, holder=holder, fence=fence))

    def deliver(self, index: int) -> None:
        answer = self.replies.pop(index)
        for process, term in enumerate(self.terms):
            if term is not None and term.holder == answer.request.holder:
                if answer.fence is not None:
                    self.seen[process] = answer.fence
                self.event(process, answer)

    def check(self) -> None:
        valid = [
            term.holder
            for term in self.terms
            if term is not None
            and term.phase is Phase.HELD
            and term.valid_until is not None
            and self.now < term.valid_until
        ]
        assert len(valid) <= 1, f"valid at once: {valid}"


actions = st.one_of(
    st.tuples(st.just("execute"), st.integers(0, 5), st.floats(0.0, SKEW_S)),
    st.tuples(st.just("execute"), st.integers(0, 5), st.floats(0.0, SKEW_S)),
    st.tuples(st.just("deliver"), st.integers(0, 5), st.just(0.0)),
    st.tuples(st.just("deliver"), st.integers(0, 5), st.just(0.0)),
    st.tuples(st.just("start"), st.integers(0, PROCESSES - 1), st.just(0.0)),
    st.tuples(st.just("tick"), st.integers(0, PROCESSES - 1), st.just(0.0)),
    st.tuples(st.just("leave"), st.integers(0, PROCESSES - 1), st.floats(0.0, 20.0)),
    st.tuples(st.just("pass"), st.integers(1, 3), st.floats(0.0, 5.0)),
    st.tuples(st.just("pass"), st.integers(1, 3), st.floats(0.0, 0.5)),
    st.tuples(st.just("lose"), st.integers(0, 5), st.just(0.0)),
)


def _play(model: Model, action: tuple[str, int, float]) -> None:
    what, index, amount = action
    match what:
        case "execute" if model.sent:
            model.execute(index % len(model.sent), amount)
        case "deliver" if model.replies:
            model.deliver(index % len(model.replies))
        case "lose" if model.replies:
            model.replies.pop(index % len(model.replies))
        case "start":
            model.start(index)
        case "tick":
            model.event(index, Tick())
        case "leave":
            model.event(index, Leave(model.now + amount))
        case "pass":
            model.now += amount * index
    model.check()


@settings(max_examples=400, deadline=None)
@given(st.lists(actions, min_size=10, max_size=120))
def test_no_two_terms_are_valid_at_once_under_any_order_of_events(script: list[tuple[str, int, float]]) -> None:
    model = Model()
    for action in script:
        _play(model, action)


@settings(max_examples=150, deadline=None)
@given(st.lists(actions, max_size=60), st.integers(0, PROCESSES - 1))
def test_once_all_goes_well_again_somebody_leads(script: list[tuple[str, int, float]], process: int) -> None:
    model = Model()
    for action in script:
        _play(model, action)
    for _ in range(200):
        model.start(process)
        while model.sent:
            model.execute(0, 0.0)
            model.check()
        while model.replies:
            model.deliver(0)
            model.check()
        if any(term is not None and term.phase is Phase.HELD for term in model.terms):
            return
        model.now += 0.5
        for each in range(PROCESSES):
            model.event(each, Tick())
            model.check()
    raise AssertionError("nobody leads")


def test_the_model_sees_two_valid_terms_when_validity_is_too_long() -> None:
    """The model itself: with half the allowance left out it must find an overlap by a plain script."""
    model = Model()
    careless = Timing(12, 2.0, -1.0, Allowance(0.0, 0.0))
    model.take(0, begin("lease", "node-0/1/x", careless, model.now))
    for _ in range(3):
        model.execute(0, 0.0)
        model.deliver(0)
    model.now += 12.5
    model.start(1)
    with pytest.raises(AssertionError, match="valid at once"):
        while model.sent:
            model.execute(0, SKEW_S)
            model.deliver(0)
            model.check()
