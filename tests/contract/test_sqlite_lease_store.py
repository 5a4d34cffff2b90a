"""What only leases on SQLite have: boots, locks, files that are not ours. Virtual time; the lock waits are real."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.runtime.virtual import VirtualWorld
from strata_daemon.leader.store import (
    Answer,
    Draw,
    Insert,
    LeaseRow,
    LeaseRows,
    Outcome,
    ReadLeases,
    ReadSignals,
    Release,
    Renew,
    Reply,
    Request,
    Signal,
    SignalRows,
)
from strata_daemon.stores.sqlite.lease_file import read_boot_id
from strata_daemon.stores.sqlite.lease_rows import PURGED_AT_ONCE
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore

APPLIED, REFUSED, UNKNOWN = Outcome.APPLIED, Outcome.REFUSED, Outcome.UNKNOWN


class Machine:
    """One file, and stores on it that live in boots of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.world = VirtualWorld()
        self.stores: list[SqliteLeaseStore] = []

    def boot(self, boot_id: str) -> SqliteLeaseStore:
        name = f"{boot_id}-{len(self.stores)}"
        store = SqliteLeaseStore(self.path, self.world.process(name), boot_id=boot_id)
        self.stores.append(store)
        return store

    def shut_down(self) -> None:
        """Every process ends at once, releasing nothing."""
        for store in self.stores:
            store.close(0.0)
        self.world.settle()

    def reader(self) -> SqliteLeaseStore:
        return SqliteLeaseStore(self.path, self.world.process("reader"), boot_id="reader", read_only=True)

    def ask(self, store: SqliteLeaseStore, *requests: Request) -> list[Reply]:
        replies: list[Reply] = []
        store.submit(requests, replies.extend)
        self.world.settle()
        return replies

    def outcome(self, store: SqliteLeaseStore, request: Request) -> Outcome:
        (answer,) = self.ask(store, request)
        assert isinstance(answer, Answer)
        return answer.outcome

    def row(self, store: SqliteLeaseStore, lease: str) -> LeaseRow | None:
        (reply,) = self.ask(store, ReadLeases((lease,)))
        assert isinstance(reply, LeaseRows) and reply.rows is not None
        return reply.rows.get(lease)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "leases.db")
    yield made
    made.shut_down()
    made.world.close()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What SQLite is told from now on, on every connection that is opened from now on."""
    told: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.set_trace_callback(told.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return told


def test_a_row_of_another_boot_is_free_once_it_stood_still_for_its_ttl_on_our_clock(machine: Machine) -> None:
    machine.ask(machine.boot("first"), Insert("gc", "old", 1, 10))
    machine.shut_down()
    machine.world.advance(3_600.0)  # an hour without anybody says nothing: their clock is not ours
    second = machine.boot("second")
    assert machine.row(second, "gc") == LeaseRow("old", 10.0)
    machine.world.advance(9.5)
    assert machine.outcome(second, Insert("gc", "new", 1, 10)) is REFUSED
    machine.world.advance(0.5)
    assert machine.outcome(second, Insert("gc", "new", 2, 10)) is APPLIED
    assert machine.row(second, "gc") == LeaseRow("new", 10.0)


def test_after_a_reboot_every_lease_is_free_at_once_however_many_there_are(machine: Machine) -> None:
    leases = [f"gc-leader-{i}" for i in range(1_024)]
    machine.ask(machine.boot("first"), *(Insert(lease, "old", 1, 10) for lease in leases))
    machine.shut_down()
    second = machine.boot("second")
    machine.ask(second, ReadLeases(tuple(leases)))
    machine.world.advance(10.0)
    outcomes = []
    for i in range(0, len(leases), 100):  # the first of these purges, and must not forget since when the rest stood
        answers = machine.ask(second, *(Insert(lease, "new", 1, 10) for lease in leases[i : i + 100]))
        outcomes += [answer.outcome for answer in answers if isinstance(answer, Answer)]
    assert outcomes == [APPLIED] * len(leases)


def test_a_row_of_another_boot_that_is_renewed_stays_held(machine: Machine) -> None:
    clone, ours = machine.boot("clone"), machine.boot("ours")
    machine.ask(clone, Insert("gc", "old", 1, 10))
    for _ in range(5):
        assert machine.outcome(ours, Insert("gc", "new", 1, 10)) is REFUSED
        machine.world.advance(6.0)
        assert machine.outcome(clone, Renew("gc", "old", 2, 10)) is APPLIED
    assert machine.outcome(ours, Renew("gc", "new", 2, 10)) is REFUSED


def test_a_row_of_another_boot_is_purged_only_after_it_stood_still(machine: Machine) -> None:
    machine.ask(machine.boot("first"), Insert("gc", "old", 1, 10))
    machine.shut_down()
    second = machine.boot("second")
    for _ in range(2):
        machine.ask(second, Insert("other", "new", 1, 10))  # the first of these sees the row, the second deletes it
        assert [each.lease for each in second.list_leases()] == (["gc", "other"] if _ == 0 else ["other"])
        machine.world.advance(61.0)


def test_tokens_outlive_boots(machine: Machine) -> None:
    machine.ask(machine.boot("first"), Draw("gc", "old", 1, None), Draw("gc", "old", 2, 1))
    machine.shut_down()
    (answer,) = machine.ask(machine.boot("second"), Draw("gc", "new", 1, None))
    assert isinstance(answer, Answer)
    assert (answer.outcome, answer.fence) == (REFUSED, 2)


def test_what_ended_is_purged_and_what_lives_is_kept(machine: Machine) -> None:
    store = machine.boot("one")
    machine.ask(store, *(Insert(f"short-{i}", "a", i, 5) for i in range(300)), Insert("long", "a", 1, 3_600))
    for left in (300 - PURGED_AT_ONCE, 0):
        machine.world.advance(61.0)
        machine.ask(store, Renew("long", "a", 2, 3_600))
        with closing(sqlite3.connect(machine.path)) as connection:
            rows = [lease for (lease,) in connection.execute("SELECT lease FROM leases")]
        assert "long" in rows
        assert len(rows) == left + 1, "a purge makes the renewals of its transaction wait, so it is bounded"


def test_what_waits_goes_into_one_transaction_and_each_is_answered_with_its_own(
    machine: Machine, statements: list[str]
) -> None:
    store = machine.boot("one")
    machine.world.settle()
    statements.clear()
    one: list[Reply] = []
    two: list[Reply] = []
    store.submit([Insert("gc", "a", 1, 10), Signal("node", "gc", False)], one.extend)
    store.submit([Insert("gc", "b", 1, 10), Draw("gc", "b", 2, None)], two.extend)
    machine.world.settle()
    assert one == [Answer(Insert("gc", "a", 1, 10), APPLIED)]
    assert two == [Answer(Insert("gc", "b", 1, 10), REFUSED, "a"), Answer(Draw("gc", "b", 2, None), APPLIED, fence=1)]
    assert statements.count("COMMIT") == 1


def test_what_is_told_is_committed(machine: Machine) -> None:
    store = machine.boot("one")
    seen: list[str] = []

    def look(_replies: Sequence[Reply]) -> None:
        with closing(sqlite3.connect(machine.path)) as other:
            seen.extend(lease for (lease,) in other.execute("SELECT lease FROM leases"))

    store.submit([Insert("gc", "a", 1, 10)], look)
    machine.world.settle()
    assert seen == ["gc"]


def test_a_ttl_counts_from_the_lock_and_not_from_the_wait_for_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def wait_for_the_lock(statement: str) -> None:
        if statement == "BEGIN IMMEDIATE":
            machine.world.at += 4.0

    def slow(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.set_trace_callback(wait_for_the_lock)
        return connection

    monkeypatch.setattr(sqlite3, "connect", slow)
    store = machine.boot("one")
    assert machine.outcome(store, Insert("gc", "a", 1, 10)) is APPLIED
    assert machine.row(store, "gc") == LeaseRow("a", 10.0)
    assert machine.outcome(store, Renew("gc", "a", 2, 10)) is APPLIED
    assert machine.row(store, "gc") == LeaseRow("a", 10.0)


@pytest.mark.parametrize("request_", [Insert("gc", "a", 1, 10), Renew("gc", "a", 1, 10), Release("gc", "a", 1)])
def test_a_draw_is_on_disk_when_it_is_answered_and_nothing_else_waits_for_the_disk(
    machine: Machine, statements: list[str], request_: Request
) -> None:
    store = machine.boot("one")
    for requests in ([request_], [request_, Draw("gc", "a", 2, None)], [request_], [Draw("gc", "a", 3, 1)]):
        machine.ask(store, *requests)
    mode, commits, is_draw = "", [], False
    for statement in statements:
        if statement.startswith("PRAGMA synchronous = "):
            mode = statement.rpartition(" ")[2]
        is_draw = is_draw or "INTO tokens" in statement
        if statement == "COMMIT":
            commits.append((is_draw, mode))
            is_draw = False
    assert commits[-4:] == [(False, "NORMAL"), (True, "FULL"), (False, "NORMAL"), (True, "FULL")]


def test_a_file_that_somebody_else_locks_makes_everything_unknown_and_a_signal_wait(machine: Machine) -> None:
    store = machine.boot("one")
    with closing(sqlite3.connect(machine.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        replies = machine.ask(store, Insert("gc", "a", 1, 10), Signal("node", "gc", True), ReadSignals())
        other.execute("COMMIT")
    answer, signals = replies
    assert isinstance(answer, Answer) and isinstance(signals, SignalRows)
    assert (answer.outcome, signals.rows) == (UNKNOWN, None)
    assert "locked" in answer.detail
    assert machine.outcome(store, Release("gc", "a", 2)) is REFUSED, "an insert that was rolled back stands"
    (signals,) = machine.ask(store, ReadSignals())
    assert isinstance(signals, SignalRows) and signals.rows is not None
    assert [each.lease for each in signals.rows["node"]] == ["gc"]


def test_reads_are_answered_while_somebody_writes(machine: Machine) -> None:
    store = machine.boot("one")
    machine.ask(store, Insert("gc", "a", 1, 10))
    with closing(sqlite3.connect(machine.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert machine.row(store, "gc") == LeaseRow("a", 10.0)
        other.execute("COMMIT")


@pytest.mark.parametrize("come_back", [True, False])
def test_a_file_that_was_replaced_or_removed_proves_nothing_any_more(machine: Machine, come_back: bool) -> None:
    store = machine.boot("one")
    machine.ask(store, Insert("gc", "a", 1, 10))
    machine.path.rename(machine.path.with_suffix(".away"))
    if come_back:
        assert machine.outcome(machine.boot("two"), Insert("gc", "b", 1, 10)) is APPLIED
    assert machine.outcome(store, Renew("gc", "a", 2, 10)) is UNKNOWN


def test_reading_works_while_no_daemon_runs_and_creates_nothing(machine: Machine) -> None:
    machine.ask(machine.boot("reader"), Insert("gc", "a", 1, 10))
    machine.shut_down()
    reader = machine.reader()
    assert [(each.lease, each.holder) for each in reader.list_leases()] == [("gc", "a")]
    assert os.listdir(machine.path.parent) == ["leases.db"]
    with pytest.raises(StoreUnavailable, match="reading only"):
        reader.submit([ReadSignals()], lambda _replies: None)
    assert reader.close(0.0)


def test_reading_works_while_a_daemon_runs(machine: Machine) -> None:
    machine.ask(machine.boot("reader"), Insert("gc", "a", 1, 10))
    assert [each.lease for each in machine.reader().list_leases()] == ["gc"]


def test_reading_where_nothing_ever_ran_sees_nothing_and_creates_nothing(machine: Machine) -> None:
    assert machine.reader().list_leases() == []
    assert os.listdir(machine.path.parent) == []


def as_text(path: Path) -> None:
    path.write_text("these are no leases, these are words of somebody else\n" * 50)


def as_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE cookies (host TEXT)")


def as_newer(path: Path) -> None:
    world = VirtualWorld()
    SqliteLeaseStore(path, world.process("one"), boot_id="boot").close(0.0)
    world.settle()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def as_truncated(path: Path) -> None:
    machine = Machine(path)
    machine.ask(machine.boot("boot"), *(Insert(f"lease-{i}", "a" * 200, i, 10) for i in range(200)))
    machine.shut_down()
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("spoil", [as_text, as_foreign, as_newer, as_truncated])
def test_a_file_that_is_not_fit_is_refused_in_one_sentence(tmp_path: Path, spoil: object, read_only: bool) -> None:
    path = tmp_path / "leases.db"
    assert callable(spoil)
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(PreflightError) as refused:
        SqliteLeaseStore(path, VirtualWorld().process("one"), boot_id="boot", read_only=read_only)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before


def test_the_boot_id_names_the_boot_and_the_time_namespace() -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert read_boot_id() == f"{boot} {os.readlink('/proc/self/ns/time')}"
