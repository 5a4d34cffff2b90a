"""The gc queue in Strata's three tables, beyond the contract suite: mirrors, floors, entries set aside, odd rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from strata_daemon.base.log import FIELDS
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.ports.gc_queue import GCEntry, SetAside
from strata_daemon.stores.cassandra import gc_depth, gc_mirrors, gc_window
from strata_daemon.stores.cassandra.bulk import ReadRefused
from strata_daemon.stores.cassandra.connect import connect
from strata_daemon.stores.cassandra.gc_queue import CassandraGCQueue
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import READ_SHARD
from tests.cassandra.kit.keyspaces import Keyspaces, Row

REGION = "r"
ALL = range(1024)
AT_MS = 1_700_000_000_000
LATER_MS = AT_MS + 86_400_000


class Queue:
    """A queue of the product beside the truth in its tables."""

    def __init__(self, keyspaces: Keyspaces) -> None:
        self.keyspaces = keyspaces
        self.client = keyspaces.client
        self.runtime = RealRuntime()
        settings = keyspaces.settings()
        self.ring = Ring(*connect(settings), settings, self.runtime)
        self.queue = CassandraGCQueue(self.ring)

    def another(self) -> CassandraGCQueue:
        """As another process sees it."""
        return CassandraGCQueue(self.ring)

    def rows(self, table: str) -> set[tuple[int, str]]:
        """(enqueued_at in ms, oid) of every row of the region."""
        found = self.client.run(
            f"SELECT region, toUnixTimestamp(enqueued_at), oid FROM {self.keyspaces.strata}.{table}"
        )
        return {(at_ms, oid) for region, at_ms, oid in found if region == REGION}

    def tables(self) -> dict[str, set[tuple[int, str]]]:
        return {table: self.rows(table) for table in ("gc_entries_v2", "gc_entries_by_cluster", "gc_queue")}

    def write(self, table: str, values: dict[str, Any], using: str = "") -> None:
        names = ", ".join(values)
        marks = ", ".join(["%s"] * len(values))
        cql = f"INSERT INTO {self.keyspaces.strata}.{table} ({names}) VALUES ({marks}) {using}"
        self.client.run(cql, tuple(values.values()))

    def read(self, shards: Sequence[int] = ALL, before_ms: int = LATER_MS) -> list[GCEntry]:
        return [entry for page in self.queue.pages(REGION, shards, before_ms, 100) for entry in page]

    def close(self) -> None:
        self.ring.close(5.0)


@pytest.fixture
def made(keyspaces: Keyspaces) -> Iterator[Queue]:
    queue = Queue(keyspaces)
    yield queue
    queue.close()


def _entry(oid: str, at_ms: int = AT_MS, cluster: str = "c1") -> GCEntry:
    return GCEntry(REGION, gc_shard(oid), at_ms, oid, cluster, "p", "n")


def _aside(entry: GCEntry, tries: int = 1, retry_at_ms: int = AT_MS) -> SetAside:
    return SetAside(entry, "unknown_cluster", tries, retry_at_ms)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, FIELDS)
    return fields


def _mend(made: Queue) -> None:
    for _ in made.queue.mend(REGION, LATER_MS):
        pass


def _columns(row: Row) -> tuple[Any, ...]:
    return tuple(row)


# -- the three tables


def test_an_entry_stands_in_all_three_tables_as_a_gateway_writes_it(made: Queue) -> None:
    entry = _entry("a.00000")
    made.queue.enqueue([entry])
    strata, client = made.keyspaces.strata, made.client
    key = (REGION, entry.shard, "a.00000")
    (row,) = client.run(
        f"SELECT region, shard_id, oid, pool, cluster, namespace, toUnixTimestamp(enqueued_at), TTL(pool)"
        f" FROM {strata}.gc_entries_v2"
    )
    assert row == (*key, "p", "c1", "n", AT_MS, None)
    columns = "cluster, region, oid, pool, namespace, toUnixTimestamp(enqueued_at)"
    (row,) = client.run(f"SELECT {columns} FROM {strata}.gc_entries_by_cluster")
    assert row == ("c1", REGION, "a.00000", "p", "n", AT_MS)
    (row,) = client.run(
        f"SELECT region, oid, pool, cluster, namespace, toUnixTimestamp(enqueued_at) FROM {strata}.gc_queue"
    )
    assert row == (REGION, "a.00000", "p", "c1", "n", AT_MS)


def test_an_ack_empties_all_three_tables_of_just_its_entries(made: Queue) -> None:
    made.queue.enqueue([_entry(f"{i}") for i in range(50)] + [_entry("0", AT_MS + 1)])
    made.queue.ack([_entry(f"{i}") for i in range(49)])
    left = {(AT_MS, "49"), (AT_MS + 1, "0")}
    assert made.tables() == {"gc_entries_v2": left, "gc_entries_by_cluster": left, "gc_queue": left}


def test_an_entry_without_a_cluster_has_no_row_by_cluster(made: Queue) -> None:
    made.queue.enqueue([_entry("a", cluster="")])
    assert made.tables() == {
        "gc_entries_v2": {(AT_MS, "a")},
        "gc_entries_by_cluster": set(),
        "gc_queue": {(AT_MS, "a")},
    }
    made.queue.ack(made.read())
    assert not any(made.tables().values())


def test_without_dual_write_the_old_table_is_left_alone(made: Queue) -> None:
    queue = CassandraGCQueue(made.ring, dual_write=False)
    queue.enqueue([_entry("a")])
    assert made.rows("gc_queue") == set()
    made.queue.enqueue([_entry("b")])
    queue.ack([_entry("a"), _entry("b")])
    assert made.rows("gc_queue") == {(AT_MS, "b")}


def test_an_ack_outranks_a_row_that_a_fast_clock_wrote(made: Queue) -> None:
    """design.md, wall clocks: USING TIMESTAMP max(now, WRITETIME + 1)."""
    ahead_us = int((made.runtime.wall().timestamp() + 50) * 1_000_000)
    entry = _entry("a")
    key = {"region": REGION, "enqueued_at": AT_MS, "oid": "a", "pool": "p", "namespace": ""}
    using = f"USING TIMESTAMP {ahead_us}"
    made.write("gc_entries_v2", {**key, "shard_id": entry.shard, "cluster": "c1"}, using)
    made.write("gc_entries_by_cluster", {**key, "cluster": "c1"}, using)
    made.write("gc_queue", {**key, "cluster": "c1"}, using)
    made.queue.ack(made.read())
    assert not any(made.tables().values())


def test_a_plain_now_would_lose_to_that_row(made: Queue) -> None:
    """That the case above can fail: without WRITETIME the row stays."""
    ahead_us = int((made.runtime.wall().timestamp() + 50) * 1_000_000)
    entry = _entry("a")
    made.write(
        "gc_entries_v2",
        {"region": REGION, "shard_id": entry.shard, "enqueued_at": AT_MS, "oid": "a", "pool": "p"},
        f"USING TIMESTAMP {ahead_us}",
    )
    made.queue.ack([entry])  # not read before, so nothing is known of its time
    assert made.rows("gc_entries_v2") == {(AT_MS, "a")}


# -- floors and tombstones


def test_a_second_read_begins_behind_the_first_and_sees_what_is_new(made: Queue) -> None:
    made.queue.enqueue([_entry("a")])
    made.queue.ack(made.read())
    assert made.read() == []
    made.queue.enqueue([_entry("late", AT_MS - 1000), _entry("new", LATER_MS + 5)])
    assert [entry.oid for entry in made.read(before_ms=LATER_MS + 10)] == ["new"]
    made.queue.forget(REGION, ALL)
    assert {entry.oid for entry in made.read(before_ms=LATER_MS + 10)} == {"late", "new"}


def test_a_read_that_is_given_up_moves_no_floor(made: Queue) -> None:
    made.queue.enqueue([_entry(f"{i}") for i in range(300)])
    pages = made.queue.pages(REGION, ALL, LATER_MS, 10)
    made.queue.ack(next(pages))
    pages.close()
    assert len(made.read()) == 290


def test_a_window_that_replicas_refuse_to_read_is_read_in_slices(made: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defect j, faults.md 38, V1. The refusal is played here: the first read of all partitions together fails, and so
    does each read of over an hour, as with 100,000 tombstones in it."""
    hour_ms = 3_600_000
    entries = [_entry(f"{i}", AT_MS + i * hour_ms // 4) for i in range(40)]
    made.queue.enqueue(entries)
    plain = made.ring.read
    refused: list[int] = []

    def read(statement: Any, values: Sequence[Any] = ()) -> list[Row]:
        if statement is READ_SHARD and values[4] - values[2] > hour_ms:
            refused.append(values[1])
            raise ReadRefused("the replicas failed to read")
        return plain(statement, values)

    class Refused:
        def wait(self) -> list[list[Row]]:
            raise ReadRefused("the replicas failed to read")

    monkeypatch.setattr(made.ring, "read", read)
    shards = sorted({entry.shard for entry in entries})
    starts = dict.fromkeys(shards, AT_MS - hour_ms)
    window = gc_window.WindowRead(made.ring, REGION, starts, AT_MS + 11 * hour_ms, made.queue._entries)
    window._pending = Refused()  # type: ignore[assignment]
    found = [entry for page in window.pages() for entry in page]
    assert sorted(found) == sorted(entries)
    assert set(refused) == set(shards)


# -- set aside


def test_an_entry_set_aside_stays_in_stratas_tables_and_is_not_read_again(made: Queue) -> None:
    entry = _entry("bad", cluster="nowhere")
    made.queue.enqueue([entry, _entry("good")])
    assert made.queue.set_aside([_aside(entry)]) == 1
    assert [each.oid for each in made.read()] == ["good"]
    assert all((AT_MS, "bad") in rows for rows in made.tables().values())
    made.queue.forget(REGION, ALL)
    assert [each.oid for each in made.read()] == ["good"]
    assert made.queue.busy_shards(REGION, [entry.shard], LATER_MS) == []


def test_another_process_finds_what_was_set_aside(made: Queue) -> None:
    entry = _entry("bad", cluster="nowhere")
    made.queue.enqueue([entry])
    made.queue.set_aside([_aside(entry, tries=3, retry_at_ms=AT_MS + 7)])
    other = made.another()
    assert list(other.pages(REGION, ALL, LATER_MS, 9)) == []
    assert other.due_set_aside(REGION, ALL, AT_MS + 6, 9) == []
    assert other.due_set_aside(REGION, ALL, AT_MS + 7, 9) == [_aside(entry, 3, AT_MS + 7)]


def test_an_entry_that_can_be_deleted_at_last_leaves_every_table(made: Queue) -> None:
    entry = _entry("bad")
    made.queue.enqueue([entry])
    made.queue.set_aside([_aside(entry)])
    made.queue.ack([entry])
    assert not any(made.tables().values())
    assert made.client.run(f"SELECT oid FROM {made.keyspaces.own}.gc_set_aside") == []
    assert made.queue.due_set_aside(REGION, ALL, LATER_MS, 9) == []


# -- mirrors


def _mirror(entry: GCEntry) -> dict[str, Any]:
    return {
        "region": entry.region,
        "enqueued_at": entry.enqueued_at_ms,
        "oid": entry.oid,
        "pool": entry.pool,
        "cluster": entry.cluster,
        "namespace": entry.namespace,
    }


def test_work_that_only_the_old_table_has_reaches_the_queue(made: Queue) -> None:
    entry = _entry("old")
    made.write("gc_queue", _mirror(entry))
    _mend(made)
    found = made.read()
    assert found == [entry]
    made.queue.ack(found)
    made.queue.forget(REGION, ALL)
    _mend(made)
    assert not any(made.tables().values())


@pytest.mark.parametrize("table", ["gc_queue", "gc_entries_by_cluster"])
def test_what_an_interrupted_ack_left_in_a_mirror_is_a_ghost_and_goes(made: Queue, table: str) -> None:
    """Defect G7: the queue's row was deleted, the mirror's was not."""
    entry = _entry("half")
    made.queue.enqueue([entry])
    made.client.run(
        f"DELETE FROM {made.keyspaces.strata}.gc_entries_v2 WHERE region = %s AND shard_id = %s AND enqueued_at = %s"
        " AND oid = %s",
        entry[:4],
    )
    _mend(made)
    assert (AT_MS, "half") not in made.rows(table)
    assert made.rows("gc_entries_v2") == set()


def test_a_ghost_that_a_gateways_start_wrote_anew_is_worked_once_more_and_goes(made: Queue) -> None:
    """Defect G5: the copy into the mirror bears a later time than the ack."""
    entry = _entry("ghost")
    made.queue.enqueue([entry])
    made.queue.ack([entry])
    made.write("gc_entries_by_cluster", _mirror(entry))
    _mend(made)
    found = made.read()
    assert found == [entry]
    made.queue.ack(found)
    assert not any(made.tables().values())


def test_mending_touches_neither_what_waits_nor_what_is_young_nor_other_regions(made: Queue) -> None:
    """Defect G6 has its like here: a mirror's partition holds rows of several regions."""
    waiting = _entry("waiting")
    young = _entry("young", LATER_MS - gc_mirrors.PATIENCE_MS + 1)
    made.queue.enqueue([waiting, _entry("aside")])
    made.queue.set_aside([_aside(_entry("aside"))])
    made.write("gc_queue", _mirror(young))
    made.write("gc_entries_by_cluster", _mirror(young._replace(region="other", oid="foreign")))
    before = made.tables()
    _mend(made)
    assert made.tables() == before
    rows = made.client.run(f"SELECT region, oid FROM {made.keyspaces.strata}.gc_entries_by_cluster")
    assert ("other", "foreign") in [_columns(row) for row in rows]


# -- odd rows


def test_rows_with_null_columns_and_columns_that_are_not_known_are_entries_all_the_same(made: Queue) -> None:
    entry = _entry("bare", cluster="")
    strata = made.keyspaces.strata
    made.client.run(f"ALTER TABLE {strata}.gc_entries_v2 ADD IF NOT EXISTS of_tomorrow text")
    made.write(
        "gc_entries_v2",
        {"region": REGION, "shard_id": entry.shard, "enqueued_at": AT_MS, "oid": "bare", "of_tomorrow": "x"},
    )
    found = made.read()
    assert found == [entry._replace(pool="", namespace="")]
    made.queue.ack(found)
    made.queue.forget(REGION, ALL)
    assert made.read() == []


def test_a_shard_that_no_slot_reads_is_said_once_and_left(made: Queue, caplog: pytest.LogCaptureFixture) -> None:
    made.write("gc_entries_v2", {"region": REGION, "shard_id": 2000, "enqueued_at": AT_MS, "oid": "x", "pool": ""})
    with caplog.at_level(logging.WARNING, "strata_daemon"):
        for _ in range(2):
            made.queue.forget(REGION, [0])
            _mend(made)
    said = [record for record in caplog.records if record.msg == "gc shard out of range"]
    assert len(said) == 1 and _fields(said[0])["shard"] == 2000
    assert made.rows("gc_entries_v2") == {(AT_MS, "x")}


def test_an_entry_of_the_future_waits_and_is_said_once(made: Queue, caplog: pytest.LogCaptureFixture) -> None:
    far_ms = int(made.runtime.wall().timestamp() * 1000) + 7_200_000
    very_far_ms = 2**61  # no date at all
    made.queue.enqueue([_entry("soon", far_ms), _entry("never", very_far_ms)])
    with caplog.at_level(logging.WARNING, "strata_daemon"):
        for _ in range(2):
            made.queue.recount(REGION, ALL)
    said = [_fields(record)["shard"] for record in caplog.records if record.msg == "gc entry enqueued in the future"]
    assert sorted(said) == sorted({_entry("soon").shard, _entry("never").shard})
    assert made.read(before_ms=far_ms - 1) == []
    assert made.rows("gc_entries_v2") == {(far_ms, "soon"), (very_far_ms, "never")}


# -- depth


def test_a_count_tells_entries_the_oldest_and_what_is_set_aside(made: Queue) -> None:
    made.queue.enqueue([_entry(f"{i}", AT_MS + i) for i in range(30)])
    made.queue.set_aside([_aside(_entry("0", AT_MS)), _aside(_entry("1", AT_MS + 1))])
    made.queue.recount(REGION, ALL)
    depth = made.another().depth(REGION)
    assert (depth.entries, depth.oldest_ms, depth.is_at_least) == (28, AT_MS + 2, False)
    assert depth.set_aside == {"unknown_cluster": 2}
    now_ms = made.runtime.wall().timestamp() * 1000
    assert depth.counted_ms is not None and now_ms - 60_000 < depth.counted_ms <= now_ms


def test_where_nobody_counted_the_one_who_asks_does(made: Queue) -> None:
    made.queue.enqueue([_entry(f"{i}", AT_MS + i) for i in range(30)])
    depth = made.another().depth(REGION)
    assert (depth.entries, depth.oldest_ms, depth.is_at_least, depth.counted_ms) == (30, AT_MS, False, None)


def test_beyond_its_bound_a_count_says_at_least(made: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defect G1: never one page passed off as the whole."""
    monkeypatch.setattr(gc_depth, "FIRST_LIMIT", 5)
    monkeypatch.setattr(gc_depth, "EXACT_MAX", 20)
    made.queue.enqueue([GCEntry(REGION, 3, AT_MS + i, f"{i}", "c1", "", "") for i in range(21)])
    made.queue.enqueue([GCEntry(REGION, 4, AT_MS + i, f"{i}", "c1", "", "") for i in range(20)])
    made.queue.recount(REGION, ALL)
    depth = made.queue.depth(REGION)
    assert (depth.entries, depth.is_at_least) == (40, True)
    made.queue.ack([GCEntry(REGION, 3, AT_MS, "0", "c1", "", "")])
    made.queue.recount(REGION, ALL)
    depth = made.queue.depth(REGION)
    assert (depth.entries, depth.is_at_least) == (40, False)
