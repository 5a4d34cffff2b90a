"""Lease stores against a tiny model: any order of requests, time, closed stores and batches gives the same answers.

The model is a page of dictionaries that shares no code with a store. SQLite and memory are asked the same.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from strata_daemon.base.runtime.virtual import VirtualWorld
from strata_daemon.leader.store import (
    Answer,
    Draw,
    Insert,
    LeaseRow,
    LeaseRows,
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
    Try,
)
from strata_daemon.stores.memory.leases import MemoryLeases, MemoryLeaseStore
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore

TTL_S = 8
LEASES = ("gc-leader-0", "gc-leader-1", "lifecycle-leader")
HOLDERS = ("a/1/x", "a/1/y", "b/2/z")
NODES = ("a", "b")

a_lease = st.sampled_from(LEASES)
a_holder = st.sampled_from(HOLDERS)
an_ask = st.one_of(
    st.builds(Insert, a_lease, a_holder, st.just(1), st.just(TTL_S)),
    st.builds(Renew, a_lease, a_holder, st.just(1), st.just(TTL_S)),
    st.builds(Release, a_lease, a_holder, st.just(1)),
    st.builds(Draw, a_lease, a_holder, st.just(1), st.one_of(st.none(), st.integers(1, 4))),
    st.builds(Signal, st.sampled_from(NODES), a_lease, st.booleans()),
)


class Model:
    """The conditional statements of leader/store.py, as short as they can be said."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rows: dict[str, tuple[str, float]] = {}
        self.fences: dict[str, int] = {}
        self.releases: dict[str, list[Released]] = defaultdict(list)

    def holder(self, lease: str) -> str | None:
        holder, until = self.rows.get(lease, ("", 0.0))
        return holder if until > self.now else None

    def answer(self, request: Try | Signal) -> Reply | None:
        if isinstance(request, Signal):
            seq = len(self.releases[request.node]) + 1
            self.releases[request.node].append(Released(seq, request.lease, request.surplus))
            return None
        if isinstance(request, Draw):
            stands = self.fences.get(request.lease)
            if stands != request.seen:
                return Answer(request, Outcome.REFUSED, fence=stands)
            fence = self.fences[request.lease] = (stands or 0) + 1
            return Answer(request, Outcome.APPLIED, fence=fence)
        holder = self.holder(request.lease)
        if holder != (None if isinstance(request, Insert) else request.holder):
            return Answer(request, Outcome.REFUSED, holder)
        if isinstance(request, Release):
            del self.rows[request.lease]
        else:
            self.rows[request.lease] = (request.holder, self.now + request.ttl_s)
        return Answer(request, Outcome.APPLIED)

    def read(self) -> dict[str, LeaseRow]:
        live = ((lease, self.holder(lease)) for lease in LEASES)
        return {lease: LeaseRow(holder, self.rows[lease][1] - self.now) for lease, holder in live if holder}


class LeaseStores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = VirtualWorld()
        self.model = Model()
        self.memory = MemoryLeases(self.world.process("truth"))
        self.clients: list[list[LeaseStore]] = [[self.on_memory(), self.on_sqlite()] for _ in range(2)]

    def on_memory(self) -> LeaseStore:
        return MemoryLeaseStore(self.memory, self.world.process("client"))

    def on_sqlite(self) -> LeaseStore:
        path = Path(self.folder.name) / "leases.db"
        return SqliteLeaseStore(path, self.world.process("client"), boot_id="boot")

    def ask(self, store: LeaseStore, *requests: Request) -> list[Reply]:
        replies: list[Reply] = []
        store.submit(requests, replies.extend)
        self.world.settle()
        return replies

    @rule(client=st.integers(0, 1), requests=st.lists(an_ask, min_size=1, max_size=6))
    def submit(self, client: int, requests: list[Try | Signal]) -> None:
        expected = [reply for request in requests if (reply := self.model.answer(request)) is not None]
        for store in self.clients[client]:
            assert self.ask(store, *requests) == expected, type(store).__name__

    @rule(eighths=st.one_of(st.integers(1, 20), st.sampled_from([8 * TTL_S, 8 * TTL_S - 1, 8 * 61])))
    def let_time_pass(self, eighths: int) -> None:
        # So that the sums are exact and an end is hit to the instant.
        self.world.advance(eighths / 8)
        self.model.now += eighths / 8

    @rule(client=st.integers(0, 1))
    def read_leases(self, client: int) -> None:
        request = ReadLeases(LEASES)
        for store in self.clients[client]:
            assert self.ask(store, request) == [LeaseRows(request, self.model.read())], type(store).__name__

    @rule(client=st.integers(0, 1), seen=st.dictionaries(st.sampled_from(NODES), st.integers(0, 5)))
    def read_signals(self, client: int, seen: dict[str, int]) -> None:
        told = {
            node: [each for each in kept if each.seq > seen.get(node, 0)] for node, kept in self.model.releases.items()
        }
        for store in self.clients[client]:
            (reply,) = self.ask(store, ReadSignals(seen))
            assert isinstance(reply, SignalRows) and reply.rows is not None
            rows = {node: list(kept) for node, kept in reply.rows.items() if kept}
            assert rows == {node: kept for node, kept in told.items() if kept}, type(store).__name__

    @rule(client=st.integers(0, 1))
    def restart(self, client: int) -> None:
        for store in self.clients[client]:
            store.close(0.0)
        self.world.settle()
        assert all(store.close(0.0) for store in self.clients[client]), "something is left running"
        self.clients[client] = [self.on_memory(), self.on_sqlite()]

    def teardown(self) -> None:
        for stores in self.clients:
            for store in stores:
                store.close(0.0)
        self.world.close()
        self.folder.cleanup()


TestLeaseStores = LeaseStores.TestCase
TestLeaseStores.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
