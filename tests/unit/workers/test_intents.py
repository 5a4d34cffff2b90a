"""Putting, removing and replaying, with a crash before and after every step: no chunk leaks and none is lost."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import google_crc32c
import pytest

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime.virtual import VirtualRuntime, VirtualWorld
from strata_daemon.domain.backref import BackRef
from strata_daemon.domain.backref import decode as decode_backref
from strata_daemon.domain.manifest import CHUNK_BYTES, ManifestError, decode
from strata_daemon.ports.chunks import ChunkName
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.ports.objects import Intent, ObjectRow
from strata_daemon.stores.chunks.memory import MemoryChunkStore
from strata_daemon.stores.memory import open_memory
from strata_daemon.workers import intents
from strata_daemon.workers.intents import PUT, REMOVE, BodyChanged, Replayed

REGION, LATER_MS = "r", 1 << 50


class Crash(BaseException):
    """The process ends here."""


class Dying:
    """Stands before a port; the process ends before or after its n-th call, and calls nothing more."""

    def __init__(self, real: object, life: Life) -> None:
        self._real = real
        self._life = life

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        return lambda *args: self._life.run(lambda: call(*args))


@dataclass
class Life:
    """`steps` calls are done; then comes the crash: before the next one, or right after the last one."""

    steps: int
    after: bool = False
    done: int = 0

    def run(self, call: Callable[[], Any]) -> Any:
        if self.done >= self.steps:
            raise Crash
        self.done += 1
        answer = call()
        if self.after and self.done == self.steps:
            raise Crash
        return answer


class ReplayedBy:
    """The objects as another process sees them, for which every writer is dead."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def is_writer_alive(self, writer: str) -> bool:
        return False


class World:
    def __init__(self) -> None:
        self.runtime = VirtualRuntime(VirtualWorld(), "lab")
        self.stores = open_memory(REGION, self.runtime)
        self.meta = self.stores.meta
        self.data = MemoryChunkStore()

    def put(self, key: str, body: bytes, meta: EmbeddedMeta | None = None, data: Any = None) -> ObjectRow:
        return intents.put(meta or self.meta, data or self.data, self.runtime, "b", key, body)

    def remove(self, key: str, meta: EmbeddedMeta | None = None) -> bool:
        return intents.remove(meta or self.meta, self.runtime, "b", key)

    def dying(self, life: Life) -> tuple[EmbeddedMeta, Any]:
        objects: Any = Dying(self.meta.objects, life)
        return replace(self.meta, objects=objects), Dying(self.data, life)

    def replay(self) -> Replayed:
        objects: Any = ReplayedBy(self.meta.objects)
        return intents.replay(replace(self.meta, objects=objects), self.data, self.runtime)

    def row(self, key: str) -> ObjectRow | None:
        bucket = self.meta.objects.bucket("b")
        return None if bucket is None else self.meta.objects.get(bucket.bucket_id, key)

    def named(self) -> set[ChunkName]:
        return {
            ChunkName(ref.cluster, ref.pool, ref.namespace, ref.oid)
            for bucket in self.meta.objects.buckets()
            for row in self.meta.objects.list(bucket.bucket_id)
            for ref in _chunks(row)
        }

    def queued(self) -> list[ChunkName]:
        entries = [entry for page in self.meta.gc_queue.pages(REGION, range(1024), LATER_MS, 10_000) for entry in page]
        return [ChunkName(entry.cluster, entry.pool, entry.namespace, entry.oid) for entry in entries]

    def written(self) -> set[ChunkName]:
        return set(self.data._chunks)

    def assert_sound(self) -> None:
        """Every chunk is named by an object or by the queue, by one of them only; and no object misses one."""
        assert self.written() <= self.named() | set(self.queued())
        assert self.named() <= self.written()
        assert not self.named() & set(self.queued())
        assert not self.meta.objects.intents()


def _chunks(row: ObjectRow) -> Any:
    manifest = decode(row.manifest)
    assert manifest is not None
    return manifest.chunks


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.stores.close()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "CHUNK_BYTES", 4)


def body_of(world: World, key: str) -> bytes:
    row = world.row(key)
    assert row is not None
    return b"".join(world.data.get(ChunkName(c.cluster, c.pool, c.namespace, c.oid)) for c in _chunks(row))


def test_an_object_is_put_in_chunks_of_four_mebibytes_with_their_checksums(world: World) -> None:
    body = bytes(range(256)) * (CHUNK_BYTES // 256) + b"rest"
    row = world.put("k", body)
    assert [chunk.size for chunk in _chunks(row)] == [CHUNK_BYTES, 4]
    assert [chunk.crc32c for chunk in _chunks(row)] == [
        google_crc32c.value(body[:CHUNK_BYTES]),
        google_crc32c.value(b"rest"),
    ]
    assert (row.size, row.etag, row.storage_class) == (len(body), hashlib.md5(body).hexdigest(), "STANDARD")
    assert body_of(world, "k") == body
    world.assert_sound()


def test_the_etag_is_the_md5_of_the_bytes(world: World) -> None:
    assert world.put("k", b"hello").etag == "5d41402abc4b2a76b9719d911017c592"


def test_an_empty_object_has_no_chunk(world: World) -> None:
    assert _chunks(world.put("k", b"")) == ()
    assert world.remove("k")
    assert world.queued() == []


@pytest.mark.usefixtures("small_chunks")
def test_each_chunk_bears_its_back_reference(world: World) -> None:
    row = world.put("ключ", b"12345678")
    found = [decode_backref(world.data.backref(chunk)) for chunk in sorted(world.written())]
    mtime_ns = int(row.mtime.timestamp() * 1000) * 1_000_000
    assert found == [BackRef(row.bucket_id, mtime_ns, index, "ключ") for index in (0, 1)]


def test_the_chunks_of_what_is_replaced_are_queued(world: World) -> None:
    old = world.put("k", b"old")
    new = world.put("k", b"new")
    assert [chunk.oid for chunk in world.queued()] == [chunk.oid for chunk in _chunks(old)]
    assert new.mtime == old.mtime + timedelta(milliseconds=1)  # the clock stood still: what goes by mtime must differ
    assert body_of(world, "k") == b"new"
    world.assert_sound()


def test_a_removed_object_is_gone_and_its_chunks_are_queued(world: World) -> None:
    world.put("k", b"body")
    assert world.remove("k")
    assert world.row("k") is None
    assert set(world.queued()) == world.written() != set()
    world.assert_sound()


@pytest.mark.parametrize("key", ["other", "k"])
def test_removing_what_is_not_there_does_nothing(world: World, key: str) -> None:
    if key == "other":
        world.put("k", b"body")
    assert not world.remove(key)
    assert world.queued() == []
    world.assert_sound()


def test_an_object_that_was_replaced_while_we_looked_is_kept(world: World) -> None:
    seen = world.put("k", b"old")
    world.put("k", b"new")
    world.runtime.wall_offset_s = 1.0
    assert not intents.remove_row(world.meta, world.runtime, seen)
    assert body_of(world, "k") == b"new"
    assert len(world.queued()) == 1  # by the put that replaced it, and not once more
    world.assert_sound()


def test_a_put_that_meets_another_goes_by_what_stands_then(world: World) -> None:
    class Rival:
        """Puts the same key once, right before the first row is written."""

        def __init__(self) -> None:
            self.came = False

        def __getattr__(self, name: str) -> Any:
            return getattr(world.meta.objects, name)

        def put(self, *args: Any) -> bool:
            if not self.came:
                self.came = True
                world.put("k", b"rival")
            return world.meta.objects.put(*args)

    objects: Any = Rival()
    world.put("k", b"ours", replace(world.meta, objects=objects))
    assert body_of(world, "k") == b"ours"
    assert len(world.queued()) == 1
    world.assert_sound()


def test_a_put_that_never_gets_through_gives_up_and_queues_its_chunks(world: World) -> None:
    class Refusing:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.meta.objects, name)

        def put(self, *_: Any) -> bool:
            return False

    objects: Any = Refusing()
    with pytest.raises(StoreUnavailable, match="nothing was put"):
        world.put("k", b"ours", replace(world.meta, objects=objects))
    assert len(world.queued()) == 1
    world.assert_sound()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("said", "word"), [(9, "shrank"), (7, "grew")])
def test_a_stream_of_another_length_than_said_is_not_put(world: World, said: int, word: str) -> None:
    with pytest.raises(BodyChanged, match=word):
        intents.put(world.meta, world.data, world.runtime, "b", "k", io.BytesIO(b"12345678"), said)
    assert world.row("k") is None
    assert world.written() <= set(world.queued())
    world.assert_sound()


@pytest.mark.usefixtures("small_chunks")
def test_a_put_whose_chunk_cannot_be_written_queues_what_was_written(world: World) -> None:
    class Failing:
        def __init__(self) -> None:
            self.calls = 0

        def put(self, *args: Any) -> None:
            self.calls += 1
            if self.calls == 2:
                raise StoreUnavailable("full")
            world.data.put(*args)

    with pytest.raises(StoreUnavailable, match="full"):
        world.put("k", b"12345678", data=Failing())
    assert len(world.written()) == 1
    world.assert_sound()


def broken(world: World) -> ObjectRow:
    """An object whose manifest somebody else wrote, in a way that we cannot read."""
    objects = world.meta.objects
    row = ObjectRow(
        objects.make_bucket("b").bucket_id, "k", 1, "", "", "STANDARD", world.runtime.wall(), b"no manifest"
    )
    intent = Intent(uuid4(), PUT, objects.writer(), row.bucket_id, "k", row.mtime, ())
    objects.begin(intent)
    assert objects.put(row, intent, None, 0)
    return row


def test_an_object_whose_manifest_does_not_decode_stays(world: World) -> None:
    row = broken(world)
    with pytest.raises(ManifestError, match="The object 'k' is left as it is"):
        world.remove("k")
    with pytest.raises(ManifestError, match="The object 'k' is left as it is"):
        world.put("k", b"new")
    assert world.row("k") == row
    assert not world.meta.objects.intents()


def test_an_intent_on_such_an_object_waits_for_a_later_start(world: World) -> None:
    row = broken(world)
    chunk = ChunkName("default", "", "", "a")
    world.meta.objects.begin(Intent(uuid4(), REMOVE, "dead", row.bucket_id, "k", row.mtime, (chunk,)))
    assert world.replay() == Replayed(left=1)
    assert len(world.meta.objects.intents()) == 1
    assert world.row("k") == row


# A crash before or after every step

STEPS = 12  # more than a put of two chunks has


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("steps", range(STEPS))
@pytest.mark.parametrize("replaces", [False, True], ids=["new", "replacing"])
def test_a_crash_at_any_step_of_a_put_is_made_good(world: World, steps: int, after: bool, replaces: bool) -> None:
    if replaces:
        world.put("k", b"oldold")
    crashed = False
    try:
        world.put("k", b"newnew", *world.dying(Life(steps, after)))
    except Crash:
        crashed = True
    assert crashed == (steps < 7 or (after and steps == 7))
    world.replay()
    world.assert_sound()
    bodies = {b"oldold", b"newnew"} if replaces else {None, b"newnew"}
    assert (body_of(world, "k") if world.row("k") else None) in bodies
    assert world.replay() == Replayed()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("steps", range(STEPS))
@pytest.mark.parametrize("then", ["nothing", "put again"])
def test_a_crash_at_any_step_of_a_removal_is_made_good(world: World, steps: int, after: bool, then: str) -> None:
    world.put("k", b"oldold")
    try:
        world.remove("k", world.dying(Life(steps, after))[0])
        crashed = False
    except Crash:
        crashed = True
    assert crashed == (steps < 6 or (after and steps == 6))
    begun = bool(world.meta.objects.intents()) or world.row("k") is None
    if then == "put again":
        world.put("k", b"newnew")
    world.replay()
    world.assert_sound()
    if then == "put again":
        assert body_of(world, "k") == b"newnew"
    else:
        assert (world.row("k") is None) == begun  # what was begun is brought to its end
    assert world.replay() == Replayed()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("steps", range(8))
def test_a_crash_in_the_middle_of_a_replay_is_made_good_by_the_next(world: World, steps: int) -> None:
    world.put("k", b"oldold")
    for key in ("k", "other"):
        with pytest.raises(Crash):
            if key == "k":
                world.remove("k", world.dying(Life(4))[0])
            else:
                world.put(key, b"newnew", *world.dying(Life(5)))
    assert {intent.kind for intent in world.meta.objects.intents()} == {PUT, REMOVE}
    objects: Any = Dying(ReplayedBy(world.meta.objects), Life(steps))
    with pytest.raises(Crash):
        intents.replay(replace(world.meta, objects=objects), world.data, world.runtime)
    world.replay()
    world.assert_sound()
    assert world.row("k") is None


def test_a_living_writer_is_left_alone(world: World) -> None:
    with pytest.raises(Crash):
        world.put("k", b"body", *world.dying(Life(5)))
    assert intents.replay(world.meta, world.data, world.runtime) == Replayed()
    assert len(world.meta.objects.intents()) == 1
    assert world.queued() == []


def test_a_removal_of_a_row_that_was_rewritten_with_the_same_chunks_queues_nothing(world: World) -> None:
    row = world.put("k", b"body")
    gone_by = row.mtime - timedelta(milliseconds=1)
    chunks = tuple(world.named())
    world.meta.objects.begin(Intent(uuid4(), REMOVE, "dead", row.bucket_id, "k", gone_by, chunks))
    assert world.replay() == Replayed(ended=1)
    assert world.row("k") == row
    world.assert_sound()
