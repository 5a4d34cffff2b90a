"""One suite for every store of objects and intents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.ports.chunks import ChunkName
from strata_daemon.ports.manifests import ObjectKey
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.ports.objects import Bucket, Intent, ObjectRow, Replaced
from strata_daemon.stores.memory import open_memory
from strata_daemon.stores.sqlite import open_sqlite
from strata_daemon.stores.writers import WriterFiles

T1, T2 = datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC), datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)
CHUNKS = (ChunkName("default", "", "", "x.00000"), ChunkName("default", "p", "n", "x.00001"))


@pytest.fixture(params=["memory", "sqlite"])
def meta(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedMeta]:
    runtime = RealRuntime()
    stores = open_memory("r", runtime) if request.param == "memory" else open_sqlite(tmp_path, "r", runtime)
    yield stores.meta
    stores.close()


@pytest.fixture
def bucket(meta: EmbeddedMeta) -> Bucket:
    return meta.objects.make_bucket("b")


def _row(bucket: Bucket, key: str = "k", mtime: datetime = T1) -> ObjectRow:
    return ObjectRow(bucket.bucket_id, key, 5, "etag", "text/plain", "STANDARD", mtime, b"\x0a\x00manifest")


def _intent(meta: EmbeddedMeta, bucket_id: UUID, kind: str = "put", key: str = "k", mtime: datetime = T1) -> Intent:
    return Intent(uuid4(), kind, meta.objects.writer(), bucket_id, key, mtime, CHUNKS)


def _put(meta: EmbeddedMeta, row: ObjectRow, replaced: Replaced | None = None) -> bool:
    intent = _intent(meta, row.bucket_id, key=row.key)
    meta.objects.begin(intent)
    return meta.objects.put(row, intent, replaced, 7000)


def _queued(meta: EmbeddedMeta) -> set[str]:
    return {entry.oid for page in meta.gc_queue.pages("r", range(1024), 9_999, 99) for entry in page}


def test_a_bucket_is_made_once(meta: EmbeddedMeta) -> None:
    assert meta.objects.bucket("b") is None
    made = meta.objects.make_bucket("b")
    assert meta.objects.make_bucket("b") == made
    assert meta.objects.bucket("b") == made
    assert list(meta.objects.buckets()) == [made]


def test_an_object_is_read_back_exactly_and_ends_its_intent(meta: EmbeddedMeta, bucket: Bucket) -> None:
    assert _put(meta, _row(bucket))
    assert meta.objects.get(bucket.bucket_id, "k") == _row(bucket)
    assert meta.objects.get(bucket.bucket_id, "other") is None
    assert list(meta.objects.intents()) == []


def test_an_overwrite_queues_what_it_replaced(meta: EmbeddedMeta, bucket: Bucket) -> None:
    """Defect X1."""
    _put(meta, _row(bucket))
    assert _put(meta, _row(bucket, mtime=T2), Replaced(T1, CHUNKS))
    assert _queued(meta) == {"x.00000", "x.00001"}


@pytest.mark.parametrize("seen", [None, Replaced(T2, CHUNKS)], ids=["no row", "another row"])
def test_an_overwrite_of_what_was_not_seen_does_nothing(
    meta: EmbeddedMeta, bucket: Bucket, seen: Replaced | None
) -> None:
    _put(meta, _row(bucket))
    assert not _put(meta, _row(bucket, mtime=T2), seen)
    assert meta.objects.get(bucket.bucket_id, "k") == _row(bucket)
    assert _queued(meta) == set()
    assert len(meta.objects.intents()) == 1


def test_objects_are_listed_by_key_with_their_prefix(meta: EmbeddedMeta, bucket: Bucket) -> None:
    keys = [f"a/{i:04}" for i in range(1100)] + ["a", "b", "ab", "ä"]
    for key in keys[-4:] + keys[:3] + keys[498:503] + keys[1095:1100]:
        _put(meta, _row(bucket, key))
    listed = [row.key for row in meta.objects.list(bucket.bucket_id, "a/")]
    assert listed == sorted(keys[:3] + keys[498:503] + keys[1095:1100])
    assert [row.key for row in meta.objects.list(bucket.bucket_id)][-2:] == ["b", "ä"]
    assert list(meta.objects.list(uuid4())) == []


def test_a_listing_crosses_its_pages(meta: EmbeddedMeta, bucket: Bucket) -> None:
    for i in range(501):
        _put(meta, _row(bucket, f"{i:04}"))
    assert len(list(meta.objects.list(bucket.bucket_id))) == 501


def test_a_removal_needs_the_row_that_was_seen(meta: EmbeddedMeta, bucket: Bucket) -> None:
    """faults.md 58."""
    _put(meta, _row(bucket, mtime=T2))
    assert not meta.objects.delete_if(bucket.bucket_id, "k", T1)
    assert meta.objects.get(bucket.bucket_id, "k") is not None
    assert meta.objects.delete_if(bucket.bucket_id, "k", T2)
    assert meta.objects.get(bucket.bucket_id, "k") is None


def test_an_intent_is_kept_until_it_is_settled(meta: EmbeddedMeta, bucket: Bucket) -> None:
    intent = _intent(meta, bucket.bucket_id, "remove")
    meta.objects.begin(intent)
    assert list(meta.objects.intents()) == [intent]
    meta.objects.settle(intent, None)
    assert list(meta.objects.intents()) == []
    assert _queued(meta) == set()


def test_a_settled_intent_queues_once(meta: EmbeddedMeta, bucket: Bucket) -> None:
    intent = _intent(meta, bucket.bucket_id, "remove")
    meta.objects.begin(intent)
    meta.objects.settle(intent, 7000)
    assert _queued(meta) == {"x.00000", "x.00001"}
    meta.gc_queue.ack([entry for page in meta.gc_queue.pages("r", range(1024), 9_999, 99) for entry in page])
    meta.objects.settle(intent, 8000)
    assert _queued(meta) == set()


def test_an_intent_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    stores = open_sqlite(tmp_path, "r", RealRuntime())
    intent = _intent(stores.meta, uuid4())
    stores.meta.objects.begin(intent)
    with stores.database.write() as connection:
        connection.execute(
            "INSERT INTO intents VALUES (?, 'put', 'w', ?, 'k', 1e300, '[]')", (str(uuid4()), str(uuid4()))
        )
        connection.execute("INSERT INTO intents VALUES ('no uuid', 'put', 'w', 'x', 'k', 1, '[]')")
        connection.execute("INSERT INTO intents VALUES (?, 'put', 'w', ?, 'k', 1, '{')", (str(uuid4()), str(uuid4())))
    assert list(stores.meta.objects.intents()) == [intent]
    stores.close()


def test_a_listing_shows_each_key_once_and_only_what_is_a_key(tmp_path: Path) -> None:
    stores = open_sqlite(tmp_path, "r", RealRuntime())
    bucket = stores.meta.objects.make_bucket("b")
    _put(stores.meta, _row(bucket))
    copy = "INSERT INTO objects SELECT bucket_id, {}, {}, 0, 0, 0, 1, '', '', '', 1, x'' FROM objects"
    with stores.database.write() as connection:
        connection.execute(copy.format("key", "'another version'"))
        connection.execute(copy.format("x'ff'", "version_id") + " LIMIT 1")
    assert [row.key for row in stores.meta.objects.list(bucket.bucket_id)] == ["k"]
    stores.close()


ODD_KEYS = ["\udcff", "a\x00b", "x" * 10_240, "", "schlüssel"]


@pytest.mark.parametrize("key", ODD_KEYS, ids=["not UTF-8", "nul", "long", "empty", "umlaut"])
def test_any_key_is_kept_listed_and_removed_as_it_is(meta: EmbeddedMeta, bucket: Bucket, key: str) -> None:
    assert _put(meta, _row(bucket, key))
    assert meta.objects.get(bucket.bucket_id, key) == _row(bucket, key)
    assert list(meta.objects.list(bucket.bucket_id, key)) == [_row(bucket, key)]
    intent = _intent(meta, bucket.bucket_id, "remove", key)
    meta.objects.begin(intent)
    assert list(meta.objects.intents()) == [intent]
    assert meta.objects.delete_if(bucket.bucket_id, key, T1)
    assert meta.objects.get(bucket.bucket_id, key) is None


def test_a_listing_goes_on_behind_a_page_that_ends_with_an_odd_key(meta: EmbeddedMeta, bucket: Bucket) -> None:
    keys = [f"{i:04}" for i in range(499)] + ["0499\udcff", "0500", "0501"]
    for key in keys:
        _put(meta, _row(bucket, key))
    assert [row.key for row in meta.objects.list(bucket.bucket_id)] == keys


def test_a_row_that_cannot_be_understood_is_an_unavailable_store_not_a_shorter_listing(tmp_path: Path) -> None:
    stores = open_sqlite(tmp_path, "r", RealRuntime())
    bucket = stores.meta.objects.make_bucket("b")
    _put(stores.meta, _row(bucket))
    for column, value in (("size", "big"), ("mtime", 1e300)):
        with stores.database.write() as connection:
            connection.execute(f"UPDATE objects SET {column} = ?", (value,))
        with pytest.raises(StoreUnavailable, match="'k'"):
            stores.meta.objects.get(bucket.bucket_id, "k")
        with pytest.raises(StoreUnavailable, match="'k'"):
            list(stores.meta.objects.list(bucket.bucket_id))
    stores.close()


def test_this_process_is_a_living_writer_and_a_stranger_is_not(meta: EmbeddedMeta) -> None:
    assert meta.objects.is_writer_alive(meta.objects.writer())
    assert not meta.objects.is_writer_alive(str(uuid4()))


def test_a_writer_lives_as_long_as_its_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from strata_daemon.stores.writers import WriterFiles\n"
        "print(WriterFiles(Path(sys.argv[1])).own(), flush=True); sys.stdin.read()"
    )
    writers = WriterFiles(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert writers.is_alive(name)
        process.kill()
        process.wait()
    assert not writers.is_alive(name)
    writers.sweep()
    assert not (tmp_path / name).exists()


def test_manifests_are_found_by_key_in_the_order_that_was_asked_for(meta: EmbeddedMeta, bucket: Bucket) -> None:
    """As gc asks before a deletion (defect G4)."""
    for key, manifest in (("a", b"of a"), ("b", b"of b")):
        row = ObjectRow(bucket.bucket_id, key, 1, "", "", "STANDARD", T1, manifest)
        assert meta.objects.put(row, _intent(meta, bucket.bucket_id, key=key), None, 0)
    asked = [ObjectKey(bucket.bucket_id, key) for key in ("b", "not there", "a")]
    assert meta.manifests.of_keys(asked) == [[b"of b"], [], [b"of a"]]
    assert meta.manifests.of_keys([]) == []
