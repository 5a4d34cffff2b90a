"""Every `LeaseStore`: two clients of one truth, as two processes see it; in virtual time but on a real ring."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.base.runtime.virtual import VirtualWorld
from strata_daemon.leader.store import (
    Allowance,
    Answer,
    Deliver,
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

if TYPE_CHECKING:
    from tests.cassandra.kit.keyspaces import Keyspaces

APPLIED, REFUSED = Outcome.APPLIED, Outcome.REFUSED
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class Store(LeaseStore, LeaseReader, Protocol):
    """What each implementation is."""


class World(Protocol):
    """Whose time the clients live in."""

    def advance(self, seconds: float) -> None: ...

    def settle(self) -> None:
        """Until what was submitted has been answered."""
        ...


@dataclass(frozen=True)
class Times:
    """What a store's clock allows: leases of `ttl_s` and `brief_s`, which end between `early_s` before and `late_s`
    after their TTL. `grain_s`: how exactly it tells what remains. `ever_s` stands for any length of time."""

    ttl_s: int = 10
    brief_s: int = 3
    early_s: float = 0.0
    late_s: float = 0.0
    grain_s: float = 0.0
    ever_s: float = 86_400.0
    cost: Allowance = Allowance(0.0, 0.0)


class Clients:
    """Two clients of one truth. `ask` is the way of a process: submit, then take what was delivered."""

    def __init__(
        self, world: World, one: Store, two: Store, put_row: Callable[[str, str], None], times: Times | None = None
    ) -> None:
        self.world = world
        self.one = one
        self.two = two
        self.put_endless_row = put_row
        self.times = times or Times()

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

    def is_left(self, seconds: float | None, expected_s: float) -> bool:
        return seconds is not None and abs(seconds - expected_s) <= self.times.grain_s + 1e-6

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


class Counted:
    """A store of a ring, and how many of its answers are still to come."""

    def __init__(self, store: Store, wait_written: Callable[[], bool]) -> None:
        self._store, self._wait_written = store, wait_written
        self._lock = threading.Lock()  # guards _open
        self._open = 0
        self._is_closed = False

    def submit(self, requests: Sequence[Request], deliver: Deliver) -> None:
        def count(replies: Sequence[Reply]) -> None:
            deliver(replies)
            with self._lock:
                self._open -= len(replies)

        if not self._is_closed:
            with self._lock:
                self._open += sum(not isinstance(request, Signal) for request in requests)
        self._store.submit(requests, count)

    def settle(self) -> None:
        ends_at = time.monotonic() + 10.0
        while self._open:
            assert time.monotonic() < ends_at, f"{self._open} requests without an answer"
            time.sleep(0.002)
        assert self._wait_written(), "a signal is not written"

    def close(self, timeout_s: float) -> bool:
        self._is_closed = True
        return self._store.close(timeout_s)

    def allowance(self) -> Allowance:
        return self._store.allowance()

    def list_leases(self) -> list[LeaseStatus]:
        return self._store.list_leases()


class RealTime:
    def __init__(self, *stores: Counted) -> None:
        self._stores = stores

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def settle(self) -> None:
        for store in self._stores:
            store.settle()


@pytest.fixture
def on_ring(keyspaces: Keyspaces) -> Iterator[Clients]:
    from strata_daemon.stores.cassandra.connect import connect
    from strata_daemon.stores.cassandra.leases import CassandraLeaseStore
    from strata_daemon.stores.cassandra.ring import Ring

    runtime = RealRuntime()
    settings = keyspaces.settings()
    rings = [Ring(*connect(settings), settings, runtime) for _ in range(2)]
    stores = [CassandraLeaseStore(ring, 1.0) for ring in rings]
    one, two = (Counted(store, lambda store=store: store._signals.wait(5.0)) for store in stores)
    # A TTL ends on a whole second of the coordinator (cassandra-facts.md II 1.1); the rest is for a busy machine.
    times = Times(4, 1, early_s=1.5, late_s=0.3, grain_s=1.5, ever_s=4.3, cost=Allowance(1.0, 1.0))
    yield Clients(RealTime(one, two), one, two, lambda lease, holder: _put(keyspaces, lease, holder), times)
    for ring in rings:
        assert ring.close(5.0)


def _put(keyspaces: Keyspaces, lease: str, holder: str) -> None:
    assert keyspaces.take(lease, holder, None)


@pytest.fixture(
    params=[
        pytest.param(on_memory, id="memory"),
        pytest.param(on_script, id="script"),
        pytest.param(on_sqlite, id="sqlite"),
        pytest.param(None, id="cassandra", marks=pytest.mark.ring),
    ]
)
def clients(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clients]:
    if request.param is None:
        yield request.getfixturevalue("on_ring")
        return
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


def test_a_lease_ends_at_its_ttl_as_exactly_as_the_store_can(clients: Clients) -> None:
    times = clients.times
    clients.ask(clients.one, Insert("gc", "a", 1, times.ttl_s))
    clients.world.advance(times.ttl_s - times.early_s - 0.01)
    assert clients.told(clients.two, Insert("gc", "b", 1, 10)) == (REFUSED, "a")
    clients.world.advance(times.early_s + 0.01 + times.late_s)
    assert clients.told(clients.two, Insert("gc", "b", 1, 10)) == (APPLIED, None)
    assert clients.told(clients.one, Renew("gc", "a", 2, 10)) == (REFUSED, "b")


def test_a_renew_counts_its_ttl_from_itself(clients: Clients) -> None:
    ttl_s = clients.times.ttl_s
    left_s = clients.times.early_s + 0.1
    clients.ask(clients.one, Insert("gc", "a", 1, ttl_s))
    clients.world.advance(0.6 * (ttl_s - clients.times.early_s))
    assert clients.told(clients.one, Renew("gc", "a", 2, ttl_s)) == (APPLIED, None)
    clients.world.advance(ttl_s - left_s)
    assert clients.told(clients.two, Insert("gc", "b", 1, 10)) == (REFUSED, "a")
    assert clients.is_left(clients.rows(clients.two, "gc")["gc"].remaining_s, left_s)


def test_a_renew_revives_no_row_that_has_ended(clients: Clients) -> None:
    clients.ask(clients.one, Insert("gc", "a", 1, clients.times.brief_s))
    clients.world.advance(clients.times.brief_s + clients.times.late_s)
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
    assert clients.told(clients.one, Renew("gc", "a", 1, clients.times.ttl_s)) == (APPLIED, None)
    clients.world.advance(clients.times.ever_s)
    assert clients.answer(clients.two, Insert("gc", "b", 1, 10)).outcome is REFUSED


def test_tokens_grow_over_holders_and_expiry_for_ever(clients: Clients) -> None:
    drawn = []
    seen = None
    for turn in range(5):
        store = clients.two if turn % 2 else clients.one
        assert clients.told(store, Insert("gc", f"h{turn}", 1, clients.times.brief_s)) == (APPLIED, None)
        answer = clients.answer(store, Draw("gc", f"h{turn}", 2, seen, AT))
        assert answer.outcome is APPLIED
        drawn.append(seen := answer.fence)
        clients.world.advance(clients.times.brief_s + clients.times.late_s)
    assert drawn == [1, 2, 3, 4, 5]


def test_a_refused_draw_brings_the_number_that_stands(clients: Clients) -> None:
    assert clients.answer(clients.one, Draw("gc", "a", 1, 7)).outcome is REFUSED
    assert clients.answer(clients.one, Draw("gc", "a", 2, 7)).fence is None
    clients.ask(clients.one, Draw("gc", "a", 3, None))
    clients.ask(clients.one, Draw("gc", "a", 4, 1))
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
    brief_s = clients.times.brief_s
    clients.ask(clients.one, Insert("gc", "a", 1, 10), Insert("lifecycle", "a", 1, brief_s))
    clients.world.advance(brief_s + 0.5)
    rows = clients.rows(clients.two, "gc", "lifecycle", "none")
    assert {lease: row.holder for lease, row in rows.items()} == {"gc": "a"}
    assert clients.is_left(rows["gc"].remaining_s, 9.5 - brief_s)


def test_signals_are_told_once_to_who_says_what_was_seen(clients: Clients) -> None:
    assert clients.signals(clients.two) == {}
    clients.ask(clients.one, Signal("node-a", "gc-leader-1", False), Signal("node-a", "gc-leader-2", True))
    both = clients.signals(clients.two)["node-a"]
    first = both[0].seq
    assert both == [Released(first, "gc-leader-1", False), Released(first + 1, "gc-leader-2", True)]
    assert clients.signals(clients.two, **{"node-a": first}) == {"node-a": both[1:]}
    assert not clients.signals(clients.two, **{"node-a": first + 1}).get("node-a")
    clients.ask(clients.two, Signal("node-b", "gc-leader-1", False))
    (other,) = clients.signals(clients.one, **{"node-a": first + 1})["node-b"]
    assert (other.lease, other.surplus) == ("gc-leader-1", False)


def test_a_signals_row_keeps_the_last_2048_releases(clients: Clients) -> None:
    clients.ask(clients.one, *(Signal("node-a", f"gc-leader-{i}", False) for i in range(2_050)))
    kept = clients.signals(clients.two)["node-a"]
    assert [each.lease for each in kept] == [f"gc-leader-{i}" for i in range(2, 2_050)]
    assert kept[-1].seq - kept[0].seq == 2_047


def test_people_see_live_leases_by_name_with_the_token_of_their_holder(clients: Clients) -> None:
    brief_s = clients.times.brief_s
    clients.ask(clients.one, Insert("b", "go", 1, 10), Insert("a", "us", 1, 30), Insert("ended", "us", 1, brief_s))
    clients.ask(clients.one, Draw("a", "us", 2, None, AT), Draw("b", "earlier", 1, None, AT))
    clients.put_endless_row("c", "stuck")
    clients.world.advance(brief_s + 0.5)
    a, b, c = clients.two.list_leases()
    assert (a.lease, a.holder, a.token, a.drawn_at) == ("a", "us", 1, AT)
    assert clients.is_left(a.remaining_s, 29.5 - brief_s)
    assert (b.lease, b.holder, b.token, b.drawn_at) == ("b", "go", None, None)
    assert clients.is_left(b.remaining_s, 9.5 - brief_s)
    assert c == LeaseStatus("c", "stuck", None, None, None)


def test_close_lets_everything_submitted_before_happen_and_nothing_after(clients: Clients) -> None:
    replies: list[Reply] = []
    clients.one.submit([Insert("gc", "a", 1, 10)], replies.extend)
    clients.one.close(0.0)
    clients.one.submit([Insert("late", "a", 1, 10)], replies.extend)
    clients.world.settle()
    assert [reply.request for reply in replies] == [Insert("gc", "a", 1, 10)]
    assert clients.one.close(0.0), "something is left running"
    assert clients.rows(clients.two, "gc", "late").keys() == {"gc"}


def test_the_allowance_is_what_the_clock_of_the_store_costs(clients: Clients) -> None:
    assert clients.one.allowance() == clients.times.cost
