"""One suite for every chunk store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from strata_daemon.base.errors import ChunkRefused, StoreUnavailable
from strata_daemon.ports.chunks import (
    DELETED,
    UNKNOWN_CLUSTER,
    ChunkName,
    ChunkStore,
    DeleteState,
    NewChunk,
)
from strata_daemon.stores.chunks import root
from strata_daemon.stores.chunks.dir import DirChunkStore
from strata_daemon.stores.chunks.memory import MemoryChunkStore


class DictMarkers(dict[str, str]):
    """The markers of a store in memory."""

    def expected(self, cluster: str) -> str | None:
        return self.get(cluster)

    def record(self, cluster: str, marker: str) -> None:
        self.setdefault(cluster, marker)


def _chunk(oid: str, *, pool: str = "", namespace: str = "") -> ChunkName:
    return ChunkName("default", pool, namespace, oid)


@pytest.fixture(params=["memory", "dir", "dir without attributes"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChunkStore:
    if request.param == "memory":
        return MemoryChunkStore()
    if request.param == "dir without attributes":
        monkeypatch.setattr(root, "_where_backrefs_fit", lambda _: root.IN_FILES)
    return DirChunkStore(tmp_path / "data", DictMarkers())


def test_what_was_put_is_read_back_with_its_back_reference(store: ChunkStore) -> None:
    body = bytes(range(256)) * 5000
    store.put(_chunk("a.00000"), body, b"\x01owner")
    assert store.get(_chunk("a.00000")) == body
    assert store.backref(_chunk("a.00000")) == b"\x01owner"


def test_a_chunk_may_be_empty_and_have_no_back_reference(store: ChunkStore) -> None:
    store.put(_chunk("a"), b"", b"")
    assert (store.get(_chunk("a")), store.backref(_chunk("a"))) == (b"", b"")


@pytest.mark.parametrize("count", [2, 30])
def test_many_chunks_are_put_at_once(store: ChunkStore, count: int) -> None:
    chunks = [NewChunk(_chunk(f"oid-{i}"), b"body %d" % i, b"ref %d" % i) for i in range(count)]
    store.put_many(chunks)
    assert [(store.get(chunk.name), store.backref(chunk.name)) for chunk in chunks] == [c[1:] for c in chunks]


def test_a_name_that_is_there_is_not_written_again(store: ChunkStore) -> None:
    store.put(_chunk("a"), b"old", b"")
    with pytest.raises(ChunkRefused, match="is there already"):
        store.put(_chunk("a"), b"new", b"")
    assert store.get(_chunk("a")) == b"old"


def test_pools_and_namespaces_keep_equal_names_apart(store: ChunkStore) -> None:
    places = [("", ""), ("p", ""), ("", "p"), ("p", "n"), ("p-n", ""), ("a", "b-c"), ("a-b", "c")]
    chunks = [_chunk("a", pool=pool, namespace=namespace) for pool, namespace in places]
    for index, chunk in enumerate(chunks):
        store.put(chunk, b"%d" % index, b"")
    assert [store.get(chunk) for chunk in chunks] == [b"%d" % index for index in range(len(chunks))]
    assert store.delete(chunks[:1]) == [DELETED]
    assert [store.get(chunk) for chunk in chunks[1:]] == [b"%d" % index for index in range(1, len(chunks))]


def test_a_deleted_chunk_is_gone_with_its_back_reference(store: ChunkStore) -> None:
    store.put(_chunk("a"), b"body", b"ref")
    assert store.delete([_chunk("a")]) == [DELETED]
    for look in (store.get, store.backref):
        with pytest.raises(KeyError):
            look(_chunk("a"))
    store.put(_chunk("a"), b"another", b"")
    assert store.backref(_chunk("a")) == b""


def test_deleting_what_is_not_there_ends_it_too(store: ChunkStore) -> None:
    assert store.delete([_chunk("a")])[0].state in (DeleteState.DELETED, DeleteState.ABSENT)


def test_each_chunk_of_a_batch_has_its_own_answer_in_order(store: ChunkStore) -> None:
    there = [_chunk(f"oid-{i}") for i in range(50)]
    store.put_many([NewChunk(chunk, b"", b"") for chunk in there])
    batch = [chunk for each in there for chunk in (each, ChunkName("elsewhere", "", "", each.oid))]
    answers = store.delete(batch)
    assert answers[::2] == [DELETED] * 50
    assert {(answer.state, answer.reason) for answer in answers[1::2]} == {(DeleteState.FAILED, UNKNOWN_CLUSTER)}
    assert "elsewhere" in answers[1].detail


def test_an_empty_batch_has_no_answer(store: ChunkStore) -> None:
    assert store.delete([]) == []
    store.put_many([])


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, chunk: store.get(chunk),
        lambda store, chunk: store.backref(chunk),
        lambda store, chunk: store.put(chunk, b"", b""),
    ],
    ids=["get", "backref", "put"],
)
def test_an_unknown_cluster_is_not_an_absent_chunk(
    store: ChunkStore, ask: Callable[[ChunkStore, ChunkName], object]
) -> None:
    with pytest.raises(StoreUnavailable, match="'elsewhere' is not known to this process"):
        ask(store, ChunkName("elsewhere", "", "", "a"))


def test_the_cluster_default_is_served_and_a_batch_has_its_bounds(store: ChunkStore) -> None:
    assert "default" in store.clusters()
    assert store.delete_batch >= 1
    assert store.delete_time_s > 0


def test_of_several_threads_that_delete_one_chunk_none_fails(store: ChunkStore) -> None:
    chunks = [_chunk(f"oid-{i}") for i in range(100)]
    store.put_many([NewChunk(chunk, b"", b"") for chunk in chunks])
    states: list[DeleteState] = []
    threads = [
        threading.Thread(target=lambda: states.extend(answer.state for answer in store.delete(chunks)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(states) == 400
    assert DeleteState.FAILED not in states
    if isinstance(store, DirChunkStore):
        assert states.count(DeleteState.DELETED) == 100


def test_back_references_of_many_come_in_order_and_none_for_what_has_none(store: ChunkStore) -> None:
    store.put(_chunk("a.00000"), b"x", b"of a")
    store.put(_chunk("b.00000"), b"x", b"")
    asked = [_chunk("b.00000"), _chunk("gone"), _chunk("a.00000"), ChunkName("nowhere", "", "", "a"), _chunk("../up")]
    assert store.backrefs(asked) == [b"", None, b"of a", None, None]
    assert store.backrefs([]) == []
