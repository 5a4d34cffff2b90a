"""Every `LeaseStore`: two clients of one truth, as two processes see it, in virtual time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest

from strata_daemon.base.runtime.virtual import VirtualWorld
from strata_daemon.leader.store import (
    Answer,
    Draw,
    Insert,
    LeaseReader,
    LeaseRow,
    LeaseRows,
    LeaseStatus,
    LeaseStore,
    Outcome,
    ReadLeases,
    ReadSignals,
    Release,
    Released,
    Renew,
    Reply,
    Request,
    Signal,
    SignalRows,
)
from strata_daemon.stores.memory.leases import MemoryLeases, MemoryLeaseStore
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore
from tests.sim.kit.scripted_store import ScriptedLeaseStore

APPLIED, REFUSED = Outcome.APPLIED, Outcome.REFUSED
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class Store(LeaseStore, LeaseReader, Protocol):
    """What each implementation is."""


class Clients:
    """Two clients of one truth. `ask` is the way of a process: submit, then take what was delivered."""

    def __init__(self, world: VirtualWorld, one: Store, two: Store, put_row: Callable[[str, str], None]) -> None:
        self.world = world
        self.one = one
        self.two = two
        self.put_endless_row = put_row

    def ask(self, store: LeaseStore, *requests: Request) -> Sequence[Reply]:
        replies: list[Reply] = []
        store.submit(requests, replies.extend)
        self.world.settle()
        return replies

    def answer(self, store: LeaseStore, request: Request) -> Answer:
        (reply,) = self.ask(store, request)
        assert isinstance(reply, Answer)
        assert reply.request == request
        return reply

    def told(self, store: LeaseStore, request: Request) -> tuple[Outcome, str | None]:
        answer = self.answer(store, request)
        return answer.outcome, answer.holder

    def rows(self, store: LeaseStore, *leases: str) -> dict[str, LeaseRow]:
        (reply,) = self.ask(store, ReadLeases(leases))
        assert isinstance(reply, LeaseRows)
        assert reply.rows is not None
        return dict(reply.rows)

    def signals(self, store: LeaseStore, **seen: int) -> dict[str, list[Released]]:
        (reply,) = self.ask(store, ReadSignals(seen))
        assert isinstance(reply, SignalRows)
        assert reply.rows is not None
        return {node: list(releases) for node, releases in reply.rows.items()}


def on_memory(world: VirtualWorld, _folder: Path) -> Clients:
    runtime = world.process("one")
    leases = MemoryLeases(runtime)
    one, two = (MemoryLeaseStore(leases, runtime) for _ in range(2))
    return Clients(world, one, two, lambda lease, holder: leases.put_row(lease, holder, None))


def on_script(world: VirtualWorld, _folder: Path) -> Clients:
    leases = MemoryLeases(world.process("truth"))
    one, two = (ScriptedLeaseStore(leases, world.process(name), latency=lambda _rng: 0.0) for name in ("one", "two"))
    return Clients(world, one, two, lambda lease, holder: leases.put_row(lease, holder, None))


def on_sqlite(world: VirtualWorld, folder: Path) -> Clients:
    path = folder / "leases.db"
    one, two = (SqliteLeaseStore(path, world.process(name), boot_id="boot") for name in ("one", "two"))

    def put_row(lease: str, holder: str) -> None:
        with closing(sqlite3.connect(path)) as foreign, foreign:
            foreign.execute("INSERT INTO leases (lease, holder, boot) VALUES (?, ?, 'boot')", (lease, holder))

    return Clients(world, one, two, put_row)


@pytest.fixture(params=[on_memory, on_script, on_sqlite], ids=["memory", "script", "sqlite"])
def clients(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clients]:
    world = VirtualWorld()
    made: Clients = request.param(world, tmp_path)
    yield made
    made.one.close(0.0)
    made.two.close(0.0)
    world.close()


def test_an_insert_takes_a_free_lease_and_refuses_everybody_else_with_the_holder(clients: Clients) -> None:
    assert clients.told(clients.one, Insert("gc", "a", 1, 10)) == (APPLIED, None)
    assert clients.told(clients.two, Insert("gc", "b", 1, 10)) == (REFUSED, "a")


def test_a_repeated_insert_is_refused_with_its_own_holder(clients: Clients) -> None:
    clients.ask(clients.one, Insert("gc", "a", 1, 10))
    assert clients.told(clients.one, Insert("gc", "a", 2, 10)) == (REFUSED, "a")


def test_a_lease_ends_exactly_at_its_ttl(clients: Clients) -> None:
    clients.ask(clients.one, Insert("gc", "a", 1, 10))
    clients.world.advance(9.99)
    assert clients.told(clients.two, Insert("gc", "b", 1, 10)) == (REFUSED, "a")
    clients.world.advance(0.01)
    assert clients.told(clients.two, Insert("gc", "b", 1, 10)) == (APPLIED, None)
    assert clients.told(clients.one, Renew("gc", "a", 2, 10)) == (REFUSED, "b")


def test_a_renew_counts_its_ttl_from_itself(clients: Clients) -> None:
    clients.ask(clients.one, Insert("gc", "a", 1, 10))
    clients.world.advance(7.0)
    assert clients.told(clients.one, Renew("gc", "a", 2, 10)) == (APPLIED, None)
    clients.world.advance(9.9)
    assert clients.told(clients.two, Insert("gc", "b", 1, 10)) == (REFUSED, "a")
    assert clients.rows(clients.two, "gc")["gc"].remaining_s == pytest.approx(0.1)


def test_a_renew_revives_no_row_that_has_ended(clients: Clients) -> None:
    clients.ask(clients.one, Insert("gc", "a", 1, 10))
    clients.world.advance(10.0)
    assert clients.told(clients.one, Renew("gc", "a", 2, 10)) == (REFUSED, None)
    assert clients.told(clients.one, Release("gc", "a", 3)) == (REFUSED, None)


def test_a_release_deletes_only_its_own_row(clients: Clients) -> None:
    clients.ask(clients.one, Insert("gc", "a", 1, 10))
    assert clients.told(clients.two, Release("gc", "b", 1)) == (REFUSED, "a")
    assert clients.told(clients.one, Release("gc", "a", 2)) == (APPLIED, None)
    assert clients.told(clients.one, Release("gc", "a", 3)) == (REFUSED, None)
    assert clients.told(clients.two, Insert("gc", "b", 2, 10)) == (APPLIED, None)


def test_a_row_without_end_refuses_for_ever_also_after_a_renew(clients: Clients) -> None:
    clients.put_endless_row("gc", "a")
    assert clients.rows(clients.two, "gc") == {"gc": LeaseRow("a", None)}
    assert clients.told(clients.one, Renew("gc", "a", 1, 10)) == (APPLIED, None)
    clients.world.advance(86_400.0)
    assert clients.answer(clients.two, Insert("gc", "b", 1, 10)).outcome is REFUSED


def test_tokens_grow_over_holders_and_expiry_for_ever(clients: Clients) -> None:
    drawn = []
    seen = None
    for turn in range(5):
        store = clients.two if turn % 2 else clients.one
        clients.ask(store, Insert("gc", f"h{turn}", 1, 10))
        answer = clients.answer(store, Draw("gc", f"h{turn}", 2, seen, AT))
        assert answer.outcome is APPLIED
        drawn.append(seen := answer.fence)
        clients.world.advance(11.0)
    assert drawn == [1, 2, 3, 4, 5]


def test_a_refused_draw_brings_the_number_that_stands(clients: Clients) -> None:
    assert clients.answer(clients.one, Draw("gc", "a", 1, 7)).outcome is REFUSED
    assert clients.answer(clients.one, Draw("gc", "a", 2, 7)).fence is None
    clients.ask(clients.one, Draw("gc", "a", 3, None), Draw("gc", "a", 4, 1))
    answer = clients.answer(clients.two, Draw("gc", "b", 1, None))
    assert (answer.outcome, answer.fence) == (REFUSED, 2)
    assert clients.answer(clients.two, Draw("gc", "b", 2, 2)).fence == 3
    assert clients.answer(clients.two, Draw("other", "b", 3, None)).fence == 1


def test_requests_of_one_submit_are_all_answered_each_with_itself(clients: Clients) -> None:
    requests: list[Request] = [Insert(f"gc-leader-{i}", "a", i, 10) for i in range(50)]
    requests.insert(25, Signal("node-a", "gc", False))
    replies = clients.ask(clients.one, *requests, ReadLeases(("gc-leader-49",)))
    assert {reply.request for reply in replies if isinstance(reply, Answer)} == {*requests} - {requests[25]}
    assert len(replies) == 51


def test_what_two_submits_ask_is_answered_to_each_its_own(clients: Clients) -> None:
    one: list[Reply] = []
    two: list[Reply] = []
    clients.one.submit([Insert("gc", "a", 1, 10), Signal("node-a", "gc", False), Draw("gc", "a", 2, None)], one.extend)
    clients.one.submit([Insert("lifecycle", "a", 3, 10)], two.extend)
    clients.world.settle()
    assert {reply.request for reply in one} == {Insert("gc", "a", 1, 10), Draw("gc", "a", 2, None)}
    assert [reply.request for reply in two] == [Insert("lifecycle", "a", 3, 10)]


def test_a_read_shows_live_rows_and_leaves_out_the_rest(clients: Clients) -> None:
    clients.ask(clients.one, Insert("gc", "a", 1, 10), Insert("lifecycle", "a", 1, 3))
    clients.world.advance(4.0)
    assert clients.rows(clients.two, "gc", "lifecycle", "none") == {"gc": LeaseRow("a", 6.0)}


def test_signals_are_told_once_to_who_says_what_was_seen(clients: Clients) -> None:
    assert clients.signals(clients.two) == {}
    clients.ask(clients.one, Signal("node-a", "gc-leader-1", False), Signal("node-a", "gc-leader-2", True))
    both = [Released(1, "gc-leader-1", False), Released(2, "gc-leader-2", True)]
    assert clients.signals(clients.two) == {"node-a": both}
    assert clients.signals(clients.two, **{"node-a": 1}) == {"node-a": both[1:]}
    assert not clients.signals(clients.two, **{"node-a": 2}).get("node-a")
    clients.ask(clients.two, Signal("node-b", "gc-leader-1", False))
    assert clients.signals(clients.one, **{"node-a": 2})["node-b"] == [Released(1, "gc-leader-1", False)]


def test_a_signals_row_keeps_the_last_2048_releases(clients: Clients) -> None:
    clients.ask(clients.one, *(Signal("node-a", f"gc-leader-{i}", False) for i in range(2_050)))
    kept = clients.signals(clients.two)["node-a"]
    assert (len(kept), kept[0].seq, kept[-1].seq) == (2_048, 3, 2_050)


def test_people_see_live_leases_by_name_with_the_token_of_their_holder(clients: Clients) -> None:
    clients.ask(clients.one, Insert("b", "go", 1, 10), Insert("a", "us", 1, 30), Insert("ended", "us", 1, 3))
    clients.ask(clients.one, Draw("a", "us", 2, None, AT), Draw("b", "earlier", 1, None, AT))
    clients.put_endless_row("c", "stuck")
    clients.world.advance(5.0)
    assert clients.two.list_leases() == [
        LeaseStatus("a", "us", 1, AT, 25.0),
        LeaseStatus("b", "go", None, None, 5.0),
        LeaseStatus("c", "stuck", None, None, None),
    ]


def test_close_lets_everything_submitted_before_happen_and_nothing_after(clients: Clients) -> None:
    replies: list[Reply] = []
    clients.one.submit([Insert("gc", "a", 1, 10)], replies.extend)
    clients.one.close(0.0)
    clients.one.submit([Insert("late", "a", 1, 10)], replies.extend)
    clients.world.settle()
    assert [reply.request for reply in replies] == [Insert("gc", "a", 1, 10)]
    assert clients.one.close(0.0), "something is left running"
    assert clients.rows(clients.two, "gc", "late").keys() == {"gc"}


def test_the_clock_of_a_local_store_costs_no_allowance(clients: Clients) -> None:
    allowance = clients.one.allowance()
    assert (allowance.rounding_s, allowance.skew_s) == (0.0, 0.0)
