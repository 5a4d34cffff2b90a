"""One suite for every gc queue."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.ports.gc_queue import GCEntry, GCQueue, QueueDepth, SetAside
from strata_daemon.stores.memory import open_memory
from strata_daemon.stores.sqlite import gc_queue as sqlite_gc_queue
from strata_daemon.stores.sqlite import open_sqlite

if TYPE_CHECKING:
    from tests.cassandra.kit.keyspaces import Keyspaces

REGION = "r"
ALL = range(64)  # of 1,024: a ring is asked for each partition


def _open(backend: str, folder: Path) -> Iterator[GCQueue]:
    runtime = RealRuntime()
    stores = open_memory(REGION, runtime) if backend == "memory" else open_sqlite(folder, REGION, runtime)
    yield stores.meta.gc_queue
    stores.close()


@pytest.fixture(params=["memory", "sqlite"])
def local_queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GCQueue]:
    yield from _open(request.param, tmp_path)


@pytest.fixture(params=["memory", "sqlite", pytest.param("cassandra", marks=pytest.mark.ring)])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GCQueue]:
    if request.param == "cassandra":
        yield from _on_ring(request.getfixturevalue("keyspaces"))
    else:
        yield from _open(request.param, tmp_path)


def _on_ring(keyspaces: Keyspaces) -> Iterator[GCQueue]:
    from strata_daemon.stores.cassandra.connect import connect
    from strata_daemon.stores.cassandra.gc_queue import CassandraGCQueue
    from strata_daemon.stores.cassandra.ring import Ring

    settings = keyspaces.settings()
    ring = Ring(*connect(settings), settings, RealRuntime())
    yield CassandraGCQueue(ring)
    assert ring.close(5.0)


def _entry(oid: str, at_ms: int = 1000, *, shard: int | None = None, region: str = REGION) -> GCEntry:
    return GCEntry(region, gc_shard(oid) % len(ALL) if shard is None else shard, at_ms, oid, "default", "p", "n")


def _read(
    queue: GCQueue, region: str, shards: Sequence[int], before_ms: int, limit: int, skipped: int = 0
) -> list[GCEntry]:
    """Up to `limit` entries behind the first `skipped` pages, as one reads who has just got the lease."""
    queue.forget(region, shards)
    pages = islice(queue.pages(region, shards, before_ms, limit), skipped, None)
    return list(islice(chain.from_iterable(pages), limit))


def _depth(queue: GCQueue, region: str = REGION) -> QueueDepth:
    """What whoever has just got the leases counted."""
    queue.forget(region, ALL)
    queue.recount(region, ALL)
    return queue.depth(region)


def _aside(entry: GCEntry, reason: str = "bad_oid", tries: int = 1, retry_at_ms: int = 5000) -> SetAside:
    return SetAside(entry, reason, tries, retry_at_ms)


def test_what_was_queued_is_read_back_exactly(queue: GCQueue) -> None:
    entry = _entry("a")
    queue.enqueue([entry])
    assert _read(queue, REGION, ALL, 1000, 10) == [entry]


def test_entries_come_shard_by_shard_and_the_oldest_first_in_each(queue: GCQueue) -> None:
    entries = [_entry("z", 3, shard=1), _entry("b", 5, shard=1), _entry("a", 9, shard=0), _entry("c", 5, shard=1)]
    queue.enqueue(entries)
    read = _read(queue, REGION, [1, 0], 10, 10)
    assert [entry.oid for entry in read if entry.shard == 0] == ["a"]
    assert [entry.oid for entry in read if entry.shard == 1] == ["z", "b", "c"]
    assert [entry.shard for entry in read] == sorted((entry.shard for entry in read), reverse=read[0].shard == 1)


def test_younger_entries_and_other_shards_and_regions_are_not_read(queue: GCQueue) -> None:
    queue.enqueue([_entry("a", 1000), _entry("b", 1001), _entry("c", 1000, region="other")])
    assert [entry.oid for entry in _read(queue, REGION, ALL, 1000, 10)] == ["a"]
    assert _read(queue, REGION, [(gc_shard("a") + 1) % 1024], 1000, 10) == []


def test_pages_follow_each_other_without_gap_or_repeat(queue: GCQueue) -> None:
    entries = [_entry(f"oid-{i}", 1000 + i % 3) for i in range(100)]
    queue.enqueue(entries)
    seen: list[GCEntry] = []
    for page in queue.pages(REGION, ALL, 2000, 7):
        assert 1 <= len(page) <= 7
        seen += page
        assert len(seen) <= 100
    assert len(seen) == 100 and set(seen) == set(entries)


def test_a_page_goes_on_behind_its_last_entry_after_it_was_acked(queue: GCQueue) -> None:
    queue.enqueue([_entry(f"{i}", shard=3) for i in range(4)])
    pages = queue.pages(REGION, ALL, 2000, 2)
    queue.ack(next(pages))
    assert [entry.oid for entry in next(pages)] == ["2", "3"]
    assert list(pages) == []


def test_an_ack_removes_just_its_entries(queue: GCQueue) -> None:
    queue.enqueue([_entry("a"), _entry("b"), _entry("a", 2000)])
    queue.ack([_entry("a"), _entry("never queued")])
    assert {(entry.oid, entry.enqueued_at_ms) for entry in _read(queue, REGION, ALL, 3000, 9)} == {
        ("b", 1000),
        ("a", 2000),
    }


def test_queueing_twice_changes_nothing(queue: GCQueue) -> None:
    queue.enqueue([_entry("a")])
    queue.enqueue([_entry("a")])
    queue.set_aside([_aside(_entry("a"))])
    queue.enqueue([_entry("a")])
    assert _depth(queue).entries == 0
    assert _depth(queue).set_aside == {"bad_oid": 1}


def test_what_is_set_aside_is_out_of_the_way_but_not_lost(queue: GCQueue) -> None:
    entry = _entry("a")
    queue.enqueue([entry, _entry("b")])
    assert queue.set_aside([_aside(entry)]) == 1
    assert [each.oid for each in _read(queue, REGION, ALL, 9999, 9)] == ["b"]
    depth = _depth(queue)
    assert (depth.entries, depth.set_aside) == (1, {"bad_oid": 1})
    assert queue.due_set_aside(REGION, ALL, 4999, 9) == []
    assert queue.due_set_aside(REGION, ALL, 5000, 9) == [_aside(entry)]
    assert queue.due_set_aside(REGION, [(entry.shard + 1) % 1024], 5000, 9) == []


def test_one_that_fails_again_has_more_tries_and_comes_later(queue: GCQueue) -> None:
    entry = _entry("a")
    queue.enqueue([entry])
    queue.set_aside([_aside(entry)])
    assert queue.set_aside([_aside(entry, "unavailable", 2, 9000)]) == 1
    assert queue.due_set_aside(REGION, ALL, 8999, 9) == []
    assert queue.due_set_aside(REGION, ALL, 9000, 9) == [_aside(entry, "unavailable", 2, 9000)]


def test_what_was_set_aside_can_be_acked(queue: GCQueue) -> None:
    entry = _entry("a")
    queue.enqueue([entry])
    queue.set_aside([_aside(entry)])
    queue.ack([entry])
    assert queue.due_set_aside(REGION, ALL, 9999, 9) == []
    assert _depth(queue).set_aside == {}


def test_the_room_for_what_is_set_aside_is_bounded_and_the_rest_stays_queued(
    queue: GCQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_gc_queue, "SET_ASIDE_MAX", 3)
    # On a ring a daemon may use the part of the room that its shards are of all.
    monkeypatch.setattr("strata_daemon.stores.cassandra.gc_shelf.SET_ASIDE_MAX", 3 * 1024 // len(ALL))
    entries = [_entry(f"{i}") for i in range(5)]
    queue.enqueue(entries)
    queue.busy_shards(REGION, ALL, 0)
    assert queue.set_aside([_aside(entry) for entry in entries]) == 3
    for _ in range(2):
        assert len(_read(queue, REGION, ALL, 9999, 9)) == 2
        assert queue.set_aside([_aside(entry) for entry in entries]) == 3, "as a pass that meets them again"
        assert _depth(queue).entries == 2


def test_setting_aside_what_is_not_queued_makes_no_entry(local_queue: GCQueue) -> None:
    """A ring is not asked: such a key is acked when it is due, since its chunk is absent."""
    queue = local_queue
    assert queue.set_aside([_aside(_entry("gone"))]) == 0
    assert queue.due_set_aside(REGION, ALL, 9999, 9) == []


@pytest.mark.parametrize("shard_count", [1, sqlite_gc_queue.FEW_SHARDS, sqlite_gc_queue.FEW_SHARDS + 1])
def test_what_is_due_comes_soonest_first_and_of_its_shards_only(queue: GCQueue, shard_count: int) -> None:
    """Over one shard and over many, since they are looked for by different ways."""
    mine = [_entry(f"{i}", shard=i % shard_count) for i in range(6)]
    others = [_entry(f"other-{i}", shard=1000) for i in range(6)] + [_entry("far", shard=0, region="other")]
    queue.enqueue([*mine, *others])
    queue.set_aside([_aside(entry, retry_at_ms=10 - i) for i, entry in enumerate(mine)])
    queue.set_aside([_aside(entry, retry_at_ms=1) for entry in others])
    due = queue.due_set_aside(REGION, range(shard_count), 9, 4)
    assert [each.retry_at_ms for each in due] == [5, 6, 7, 8]
    assert [each.entry for each in due] == [mine[5], mine[4], mine[3], mine[2]]


def test_an_oid_that_is_not_utf_8_can_be_queued_again_as_it_was_read(local_queue: GCQueue) -> None:
    """Text in Cassandra is UTF-8, so there are none on a ring."""
    queue = local_queue
    odd = _entry("\udcff\udcfe\x00x", shard=2)
    queue.enqueue([_entry("good", shard=1), odd])
    queue.enqueue([odd])
    (read,) = _read(queue, REGION, [odd.shard], 1000, 9)
    assert read == odd
    queue.set_aside([_aside(odd)])
    queue.enqueue([odd])
    assert (_depth(queue).entries, _depth(queue).set_aside) == (1, {"bad_oid": 1})
    queue.ack([odd])
    assert _depth(queue).set_aside == {}


def test_busy_shards_are_those_with_an_old_enough_entry(queue: GCQueue) -> None:
    queue.enqueue([_entry("a", 1000, shard=5), _entry("b", 2000, shard=7), _entry("c", 1000, shard=9)])
    assert queue.busy_shards(REGION, [5, 7, 8], 1000) == [5]
    assert queue.busy_shards(REGION, ALL, 2000) == [5, 7, 9]
    assert queue.busy_shards("other", ALL, 2000) == []


def test_the_depth_is_that_of_the_whole_queue(queue: GCQueue) -> None:
    """Defect G1."""
    assert _depth(queue).oldest_ms is None
    queue.enqueue([_entry(f"{i}", 5000 + i) for i in range(1200)])
    queue.enqueue([_entry("older", 4000)])
    assert (_depth(queue).entries, _depth(queue).oldest_ms) == (1201, 4000)


ODD = {
    "not UTF-8": b"\xff\xfe\x00x",
    "escape": b"../../etc/passwd",
    "absolute": b"/etc/passwd",
    "nul": b"a\x00b",
    "long": b"x" * 10_240,
    "empty": b"",
    "umlaut": "schlüssel".encode(),
}


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("as_blob", [False, True], ids=["text", "blob"])
def test_any_oid_that_somebody_wrote_can_be_read_set_aside_and_acked(tmp_path: Path, raw: bytes, as_blob: bool) -> None:
    stores = open_sqlite(tmp_path, REGION, RealRuntime())
    queue = stores.meta.gc_queue
    try:
        with sqlite3.connect(tmp_path / "strata.db") as foreign:
            place = "?" if as_blob else "CAST(? AS TEXT)"
            foreign.execute(f"INSERT INTO gc_entries VALUES ('r', 3, 1000, {place}, 'c', '', '')", (raw,))
        foreign.close()
        queue.enqueue([_entry("good", shard=4), _entry("first", 1, shard=3), _entry("last", 1001, shard=3)])
        page = _read(queue, REGION, ALL, 2000, 9)
        assert [entry.oid.encode("utf-8", "surrogateescape") for entry in page] == [b"first", raw, b"last", b"good"]
        odd = page[1]
        assert [entry.oid for entry in _read(queue, REGION, ALL, 2000, 2, 1)] == ["last", "good"]
        assert queue.set_aside([_aside(odd)]) == 1
        assert [entry.oid for entry in _read(queue, REGION, ALL, 2000, 9)] == ["first", "last", "good"]
        (due,) = queue.due_set_aside(REGION, ALL, 5000, 9)
        assert due.entry == odd
        assert queue.set_aside([_aside(due.entry, tries=2)]) == 1
        queue.ack([due.entry])
        assert queue.depth(REGION).set_aside == {}
    finally:
        stores.close()


def test_an_oid_that_is_not_utf_8_is_stored_as_the_text_that_it_is(tmp_path: Path) -> None:
    stores = open_sqlite(tmp_path, REGION, RealRuntime())
    try:
        stores.meta.gc_queue.enqueue([_entry("\udcffx")])
        with stores.database.read() as connection:
            rows = connection.execute("SELECT typeof(oid), CAST(oid AS BLOB) FROM gc_entries").fetchall()
        assert rows == [("text", b"\xffx")]
    finally:
        stores.close()


def test_a_blob_that_is_queued_again_stays_the_one_row_that_it_is(tmp_path: Path) -> None:
    stores = open_sqlite(tmp_path, REGION, RealRuntime())
    try:
        with stores.database.write() as connection:
            connection.execute("INSERT INTO gc_entries VALUES ('r', 3, 1000, x'6162', 'c', '', '')")
        (blob,) = _read(stores.meta.gc_queue, REGION, ALL, 2000, 9)
        stores.meta.gc_queue.enqueue([blob])
        assert stores.meta.gc_queue.depth(REGION).entries == 1
    finally:
        stores.close()


def test_a_row_whose_instant_is_no_number_stops_no_look_at_the_others(tmp_path: Path) -> None:
    stores = open_sqlite(tmp_path, REGION, RealRuntime())
    queue = stores.meta.gc_queue
    try:
        with stores.database.write() as connection:
            connection.execute("INSERT INTO gc_entries VALUES ('r', 3, 'noon', 'x', 'c', '', '')")
        queue.enqueue([_entry("good", shard=4)])
        assert queue.busy_shards(REGION, ALL, 2000) == [4]
        assert [entry.oid for entry in _read(queue, REGION, ALL, 2000, 9)] == ["good"]
        assert (queue.depth(REGION).entries, queue.depth(REGION).oldest_ms) == (2, 1000)
    finally:
        stores.close()


def test_an_instant_that_is_no_whole_number_hides_nothing_of_its_shard(tmp_path: Path) -> None:
    stores = open_sqlite(tmp_path, REGION, RealRuntime())
    queue = stores.meta.gc_queue
    try:
        with stores.database.write() as connection:
            connection.execute("INSERT INTO gc_entries VALUES ('r', 3, 1.5, 'x', 'c', '', '')")
        queue.enqueue([_entry("good", shard=3)])
        assert queue.busy_shards(REGION, ALL, 2000) == [3]
        assert queue.depth(REGION).oldest_ms == 1
        queue.ack(_read(queue, REGION, ALL, 2000, 9))
        assert queue.depth(REGION).entries == 0
    finally:
        stores.close()


@pytest.mark.parametrize("raw", [b"ab", b"\xff"], ids=["plain", "not UTF-8"])
def test_a_blob_beside_the_text_of_the_same_bytes_is_set_aside_too(tmp_path: Path, raw: bytes) -> None:
    stores = open_sqlite(tmp_path, REGION, RealRuntime())
    queue = stores.meta.gc_queue
    try:
        with stores.database.write() as connection:
            for place in ("?", "CAST(? AS TEXT)"):
                connection.execute(f"INSERT INTO gc_entries VALUES ('r', 3, 1000, {place}, 'c', '', '')", (raw,))
        page = _read(queue, REGION, ALL, 2000, 9)
        assert len(page) == 2
        queue.set_aside([_aside(entry) for entry in page])
        assert _read(queue, REGION, ALL, 2000, 9) == []
        assert queue.depth(REGION).set_aside == {"bad_oid": 2}
        queue.ack(page)
        assert queue.depth(REGION).set_aside == {}
    finally:
        stores.close()


def test_one_odd_row_changes_nothing_for_the_reads_that_follow(tmp_path: Path) -> None:
    """A page of plain text is decoded in another way than one with an odd row."""
    stores = open_sqlite(tmp_path, REGION, RealRuntime())
    queue = stores.meta.gc_queue
    try:
        queue.enqueue([_entry("\udcff", shard=3), _entry("good", shard=4)])
        for _ in range(2):
            assert [entry.oid for entry in _read(queue, REGION, [4], 2000, 9)] == ["good"]
            assert [entry.oid for entry in _read(queue, REGION, ALL, 2000, 9)] == ["\udcff", "good"]
        queue.set_aside([_aside(_entry("\udcff", shard=3))])
        assert [each.entry.oid for each in queue.due_set_aside(REGION, ALL, 5000, 9)] == ["\udcff"]
    finally:
        stores.close()
