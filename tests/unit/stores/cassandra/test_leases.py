"""What the lease store tells the budget of bulk requests: a lease waits from its sending until its answer, whatever
that is (faults.md 45)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.leader.store import Answer, Insert, Outcome
from strata_daemon.stores.cassandra.budget import FIRST, Budget
from strata_daemon.stores.cassandra.leases import CassandraLeaseStore


class Future:
    """Answers when the test says so."""

    def add_callbacks(self, on_rows: Callable[[Any], None], on_error: Callable[[BaseException], None]) -> None:
        self.on_rows, self.on_error = on_rows, on_error


class Session:
    """Accepts what is sent, or raises as one that is shut down."""

    def __init__(self) -> None:
        self.future = Future()
        self.error: Exception | None = None

    def execute_async(self, _request: Any, **_: Any) -> Future:
        if self.error is not None:
            raise self.error
        return self.future


class Hosts:
    """One node."""

    def for_key(self, _keyspace: str, _key: str, avoid: Any = ()) -> str:
        return "node 1"

    def failed(self, _host: str) -> None:
        pass

    def answered(self, _host: str) -> None:
        pass


@pytest.fixture
def budget() -> Budget:
    return Budget()


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def store(budget: Budget, session: Session) -> CassandraLeaseStore:
    ring: Any = SimpleNamespace(
        prepared=lambda statement: statement,
        bind=lambda statement, values: (statement, values),
        settings=SimpleNamespace(keyspace="strata", own_keyspace="strata_daemon"),
        hosts=Hosts(),
        runtime=RealRuntime(),
        lease_session=session,
        budget=budget,
    )
    return CassandraLeaseStore(ring, skew_s=0.1)


def _places(budget: Budget) -> int:
    """How many may be sent now; none of them stays."""
    taken = 0
    while budget.take(lambda: None):
        taken += 1
    for _ in range(taken):
        budget.give(None)
    return taken


@pytest.mark.parametrize("end", ["applied", "refused", "failed"])
def test_bulk_requests_are_held_back_until_the_answer(
    store: CassandraLeaseStore, budget: Budget, session: Session, end: str
) -> None:
    answers: list[Any] = []
    store.submit([Insert("gc-leader-0", "a/1", 1, 30)], answers.extend)
    assert 0 < _places(budget) < FIRST
    if end == "failed":
        session.future.on_error(OSError("connection reset"))
    else:
        session.future.on_rows([(end == "applied",)])
    expected = {"applied": Outcome.APPLIED, "refused": Outcome.REFUSED, "failed": Outcome.UNKNOWN}[end]
    assert [each.outcome for each in answers if isinstance(each, Answer)] == [expected]
    assert _places(budget) == FIRST


def test_bulk_requests_go_on_after_a_lease_that_could_not_be_sent(
    store: CassandraLeaseStore, budget: Budget, session: Session
) -> None:
    session.error = RuntimeError("session is shut down")
    store.submit([Insert("gc-leader-0", "a/1", 1, 30)], lambda _: None)
    assert _places(budget) == FIRST


def test_bulk_requests_go_on_although_an_answer_could_not_be_handed_over(
    store: CassandraLeaseStore, budget: Budget, session: Session
) -> None:
    def refuse(_: Any) -> None:
        raise RuntimeError("the timer is closed")

    store.submit([Insert("gc-leader-0", "a/1", 1, 30)], refuse)
    with pytest.raises(RuntimeError):
        session.future.on_rows([(True,)])
    assert _places(budget) == FIRST
