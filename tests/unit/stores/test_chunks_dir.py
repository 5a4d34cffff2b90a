"""The folder of chunks: where files lie, what it refuses, and what it says when the folder is not the right one."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from strata_daemon.base.errors import ChunkRefused, PreflightError, StoreUnavailable
from strata_daemon.ports.chunks import (
    ABSENT,
    BAD_OID,
    DELETED,
    REFUSED,
    UNAVAILABLE,
    ChunkName,
    DeleteState,
    NewChunk,
)
from strata_daemon.stores.chunks import dir as chunks_dir
from strata_daemon.stores.chunks import root
from strata_daemon.stores.chunks.dir import DirChunkStore
from strata_daemon.stores.chunks.names import Place, place

FAILED = DeleteState.FAILED
A = ChunkName("default", "", "", "a")  # logical gc shard 300, so folder 12c


class DictMarkers(dict[str, str]):
    def expected(self, cluster: str) -> str | None:
        return self.get(cluster)

    def record(self, cluster: str, marker: str) -> None:
        self.setdefault(cluster, marker)


@pytest.fixture
def markers() -> DictMarkers:
    return DictMarkers()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(data: Path, markers: DictMarkers) -> DirChunkStore:
    return DirChunkStore(data, markers)


def only(store: DirChunkStore, chunk: ChunkName = A) -> tuple[DeleteState, str]:
    (answer,) = store.delete([chunk])
    assert bool(answer.detail) == (answer.state is FAILED)
    return answer.state, answer.reason


@contextmanager
def failing(
    monkeypatch: pytest.MonkeyPatch, call: str, error: int, *, when: Callable[..., bool]
) -> Iterator[list[Any]]:
    """`os.<call>` fails with `error` on the calls that `when` names."""
    real, failed = getattr(os, call), []

    def scripted(*args: Any, **kwargs: Any) -> Any:
        if when(*args):
            failed.append(args)
            raise OSError(error, os.strerror(error), "scripted")
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, scripted)
        yield failed


# Where files lie


def test_a_chunk_lies_in_the_folder_of_its_gc_shard(store: DirChunkStore, data: Path) -> None:
    store.put(A, b"body", b"ref")
    assert (data / "default" / "chunks" / "12c" / "a").read_bytes() == b"body"
    assert os.getxattr(data / "default" / "chunks" / "12c" / "a", "user.strata.backref") == b"ref"


def test_pool_and_namespace_are_a_folder_beside_the_chunks(store: DirChunkStore, data: Path) -> None:
    store.put(A._replace(pool="p", namespace="n"), b"body", b"")
    assert (data / "default" / "pools" / "p@n" / "12c" / "a").read_bytes() == b"body"


def test_nothing_but_the_chunk_is_left_after_a_put(store: DirChunkStore, data: Path) -> None:
    store.put_many([NewChunk(A._replace(oid=f"{i}"), b"x", b"y") for i in range(20)])
    files = [path for path in data.rglob("*") if path.is_file()]
    assert len(files) == 21  # and the marker


def test_a_put_that_fails_in_the_middle_leaves_no_file(
    store: DirChunkStore, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing(monkeypatch, "write", errno.ENOSPC, when=lambda *_: True), pytest.raises(StoreUnavailable):
        store.put(A, b"body", b"")
    assert not (data / "default" / "chunks" / "12c" / "a").exists()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Name and size of what was synced, in order, each as it was just then."""
    seen: list[tuple[str, int]] = []
    real = os.fsync

    def spy(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        seen.append((path.name, 0 if path.is_dir() else path.stat().st_size))
        real(fd)

    monkeypatch.setattr(os, "fsync", spy)
    return seen


def test_a_put_syncs_the_new_folder_then_the_whole_file_then_its_name(
    store: DirChunkStore, synced: list[tuple[str, int]]
) -> None:
    synced.clear()
    store.put(A, b"body", b"ref")
    assert synced == [("chunks", 0), ("a", 4), ("12c", 0)]


def test_many_chunks_are_synced_once_and_all_of_them_by_then(
    store: DirChunkStore, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[list[int]] = []
    real = chunks_dir.sync_all

    def spy(fd: int) -> None:
        sizes.append([path.stat().st_size for path in (data / "default" / "chunks").rglob("oid-*")])
        real(fd)

    monkeypatch.setattr(chunks_dir, "sync_all", spy)
    store.put_many([NewChunk(A._replace(oid=f"oid-{i}"), b"body", b"") for i in range(20)])
    assert sizes == [[4] * 20]


@pytest.mark.parametrize("nth", range(3), ids=["new folder", "file", "its name"])
def test_a_put_that_was_not_synced_has_failed(store: DirChunkStore, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    calls = iter(range(100))
    with (
        failing(monkeypatch, "fsync", errno.EIO, when=lambda _: next(calls) == nth) as failed,
        pytest.raises(StoreUnavailable),
    ):
        store.put(A, b"body", b"")
    assert len(failed) == 1


def test_many_chunks_that_were_not_synced_have_failed(store: DirChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(chunks_dir, "sync_all", broken)
    with pytest.raises(StoreUnavailable):
        store.put_many([NewChunk(A._replace(oid=f"oid-{i}"), b"", b"") for i in range(20)])


# Names that are not served


@pytest.mark.parametrize(
    "oid",
    [
        "",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        ".hidden",
        "a\0b",
        "a\n",
        "a b",
        "x" * 201,
        "x" * 10_240,
        b"\xff\xfe".decode("utf-8", "surrogateescape"),
        "ключ",
        "\u0661",  # a digit, but not of ASCII
    ],
)
def test_a_hostile_oid_is_refused_and_nothing_is_touched(store: DirChunkStore, data: Path, oid: str) -> None:
    before = sorted(data.parent.rglob("*"))
    chunk = A._replace(oid=oid)
    assert only(store, chunk) == (FAILED, BAD_OID)
    assert len(store.delete([chunk])[0].detail) < 500
    for ask in (lambda: store.put(chunk, b"", b""), lambda: store.get(chunk), lambda: store.backref(chunk)):
        with pytest.raises(ChunkRefused, match="is not served from a folder"):
            ask()
    assert sorted(data.parent.rglob("*")) == before


@pytest.mark.parametrize("field", ["pool", "namespace"])
@pytest.mark.parametrize("value", ["..", "a/b", ".a", "a@b", "x" * 101, "a\0"])
def test_a_hostile_pool_or_namespace_is_refused(store: DirChunkStore, field: str, value: str) -> None:
    assert only(store, A._replace(**{field: value})) == (FAILED, BAD_OID)


def test_the_longest_names_that_are_served_fit_the_file_system(store: DirChunkStore) -> None:
    chunk = ChunkName("default", "p" * 100, "n" * 100, "o" * 200)
    store.put(chunk, b"body", b"ref")
    assert only(store, chunk) == (DeleteState.DELETED, "")


def test_a_bad_oid_spoils_no_neighbour(store: DirChunkStore) -> None:
    store.put(A, b"", b"")
    answers = store.delete([A._replace(oid="../a"), A, A._replace(oid="b")])
    assert [answer.state for answer in answers] == [FAILED, DeleteState.DELETED, DeleteState.ABSENT]


def test_places_of_different_chunks_differ() -> None:
    chunks = [A._replace(pool=p, namespace=n, oid=o) for p in ("", "x", "x-y") for n in ("", "x", "y") for o in "ab"]
    assert len({place(chunk) for chunk in chunks}) == len(chunks)
    assert place(A) == Place(("chunks", "12c"), "a")


# What lies in the way


def test_a_folder_that_is_a_link_is_not_followed(store: DirChunkStore, data: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").write_bytes(b"precious")
    (data / "default" / "chunks" / "12c").symlink_to(elsewhere)
    assert only(store) == (FAILED, REFUSED)
    with pytest.raises(StoreUnavailable):
        store.get(A)
    with pytest.raises(StoreUnavailable):
        store.put(A._replace(oid="a"), b"", b"")
    assert (elsewhere / "a").read_bytes() == b"precious"


def test_a_file_that_is_a_link_goes_without_its_target(store: DirChunkStore, data: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    folder = data / "default" / "chunks" / "12c"
    folder.mkdir()
    (folder / "a").symlink_to(tmp_path / "precious")
    with pytest.raises(StoreUnavailable):
        store.get(A)
    assert only(store) == (DeleteState.DELETED, "")
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_a_folder_in_place_of_a_chunk_is_refused(store: DirChunkStore, data: Path) -> None:
    (data / "default" / "chunks" / "12c" / "a").mkdir(parents=True)
    assert only(store) == (FAILED, REFUSED)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS, errno.EIO, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_is_unavailable(
    store: DirChunkStore, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    store.put(A, b"", b"")
    with failing(monkeypatch, "unlink", error, when=lambda *_: True):
        assert only(store) == (FAILED, UNAVAILABLE)
    assert store.delete([A]) == [DELETED]


def test_what_was_unlinked_but_not_synced_has_failed(store: DirChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(A, b"", b"")
    with failing(monkeypatch, "fsync", errno.EIO, when=lambda *_: True):
        assert only(store) == (FAILED, UNAVAILABLE)
        assert only(store) == (FAILED, UNAVAILABLE)  # absent now, but nobody knows whether for good
    assert store.delete([A]) == [ABSENT]


def test_each_touched_folder_is_synced_once_a_call(
    store: DirChunkStore, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [A._replace(oid=f"oid-{i}") for i in range(200)]
    store.put_many([NewChunk(chunk, b"", b"") for chunk in chunks])
    inodes = {path.stat().st_ino: path.name for path in (data / "default" / "chunks").iterdir()}
    synced: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(inodes[os.fstat(fd).st_ino]), real(fd)))
    assert store.delete(chunks) == [DELETED] * 200
    assert sorted(synced) == sorted(inodes.values())


@contextmanager
def as_somebody_without_rights() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_folder_is_unavailable_and_loses_nothing(markers: DictMarkers) -> None:
    with tempfile.TemporaryDirectory() as name:
        state = Path(name)
        state.chmod(0o755)
        store = DirChunkStore(state / "data", markers)
        store.put(A, b"body", b"")
        folder = state / "data" / "default" / "chunks" / "12c"
        folder.chmod(0o555)
        with as_somebody_without_rights():
            assert only(store) == (FAILED, UNAVAILABLE)
            with pytest.raises(StoreUnavailable, match="Permission denied"):
                store.put(A._replace(oid="b"), b"", b"")
        folder.chmod(0o755)
        assert store.get(A) == b"body"


# The right folder


def test_a_new_folder_is_made_and_recorded(data: Path, markers: DictMarkers) -> None:
    DirChunkStore(data, markers).put(A, b"body", b"")
    assert set(markers) == {"default"}
    assert DirChunkStore(data, markers).get(A) == b"body"


def test_a_new_folder_is_durable_before_it_is_recorded(data: Path, synced: list[tuple[str, int]]) -> None:
    class Noting(DictMarkers):
        def record(self, cluster: str, marker: str) -> None:
            before.extend(synced)

    before: list[tuple[str, int]] = []
    DirChunkStore(data, Noting())
    (marker, size), *folders = before
    assert marker.startswith(".strata-chunks")
    assert size > 36
    assert folders == [("default", 0), ("data", 0), (data.parent.name, 0)]


def test_a_folder_that_another_process_makes_and_fills_meanwhile_is_adopted(
    data: Path, markers: DictMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def faster(path: Any) -> Any:
        monkeypatch.setattr(os, "scandir", real)
        DirChunkStore(data, markers).put(A, b"body", b"")
        return real(path)

    monkeypatch.setattr(os, "scandir", faster)
    assert DirChunkStore(data, markers).get(A) == b"body"


def test_somebody_who_only_looks_makes_no_folder(data: Path, markers: DictMarkers) -> None:
    store = DirChunkStore(data, markers, read_only=True)
    assert not data.exists()
    assert markers == {}
    assert only(store) == (FAILED, UNAVAILABLE)


def test_a_folder_that_was_made_but_not_recorded_is_adopted(data: Path, markers: DictMarkers) -> None:
    DirChunkStore(data, DictMarkers())
    DirChunkStore(data, markers).put(A, b"body", b"")
    assert DirChunkStore(data, markers).get(A) == b"body"


@pytest.mark.parametrize(
    "away",
    [
        shutil.rmtree,
        lambda data: shutil.rmtree(data / "default"),
        lambda data: shutil.rmtree(data / "default" / "chunks"),
        lambda data: (data / "default" / root.MARKER).unlink(),
        lambda data: (data / "default" / root.MARKER).write_text("{}"),
        lambda data: (data / "default" / root.MARKER).write_text("not json"),
        lambda data: (data / "default" / root.MARKER).write_text('{"marker": "other", "backrefs": "xattrs"}'),
        lambda data: (shutil.rmtree(data), DirChunkStore(data, DictMarkers())),
        lambda data: (shutil.rmtree(data), data.write_text("a file")),
        lambda data: (shutil.rmtree(data / "default"), (data / "default").mkdir()),
    ],
    ids=[
        "all",
        "root",
        "chunks",
        "marker",
        "empty marker",
        "broken marker",
        "foreign marker",
        "foreign root",
        "file",
        "unmounted",
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_missing_or_foreign_folder_is_never_an_absent_chunk(
    store: DirChunkStore, data: Path, markers: DictMarkers, away: Callable[[Path], object], restarted: bool
) -> None:
    store.put(A, b"body", b"")
    away(data)
    before = sorted(data.parent.rglob("*"))
    looked = DirChunkStore(data, markers) if restarted else store
    assert only(looked) == (FAILED, UNAVAILABLE)
    for ask in (lambda: looked.get(A), lambda: looked.put(A, b"", b""), lambda: looked.backref(A)):
        with pytest.raises(StoreUnavailable, match="is not there"):
            ask()
    assert sorted(data.parent.rglob("*")) == before


def test_a_folder_that_goes_away_in_the_middle_of_a_batch_makes_nothing_absent(
    store: DirChunkStore, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [A, A._replace(oid="b")]
    store.put(A, b"", b"")
    store.put(chunks[1], b"", b"")
    real, calls = os.unlink, []

    def unlink(name: str, *, dir_fd: int) -> None:
        calls.append(name)
        if len(calls) == 2:
            data.rename(data.with_name("moved"))
            real(name, dir_fd=dir_fd)  # so that the call below finds nothing
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    answers = store.delete(chunks)
    assert answers[0] == DELETED
    assert (answers[1].state, answers[1].reason) == (FAILED, UNAVAILABLE)


def test_a_folder_that_is_exchanged_in_the_middle_of_a_put_takes_no_chunk(
    store: DirChunkStore, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def write(fd: int, content: bytes) -> int:
        data.rename(data.with_name("moved"))
        shutil.copytree(data.with_name("moved"), data)
        return real(fd, content)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StoreUnavailable, match="was exchanged for another one"):
        store.put(A, b"body", b"")


def test_a_folder_of_files_without_a_marker_is_not_taken_over(data: Path, markers: DictMarkers) -> None:
    (data / "default" / "chunks" / "12c").mkdir(parents=True)
    with pytest.raises(PreflightError, match="has no marker"):
        DirChunkStore(data, markers)
    assert markers == {}


def test_a_folder_that_cannot_be_made_ends_the_start_with_a_sentence(tmp_path: Path, markers: DictMarkers) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(PreflightError, match="cannot be made"):
        DirChunkStore(tmp_path / "data", markers)
    assert markers == {}


def test_two_processes_that_make_the_folder_at_once_agree_on_its_marker(
    data: Path, markers: DictMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = DictMarkers()
    real = os.link

    def link(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(os, "link", real)
        DirChunkStore(data, rival)
        real(*args, **kwargs)

    monkeypatch.setattr(os, "link", link)
    DirChunkStore(data, markers)
    assert markers == rival
    assert [path.name for path in (data / "default").iterdir() if path.is_file()] == [root.MARKER]


# Without extended attributes


@pytest.fixture
def without_attributes(data: Path, markers: DictMarkers, monkeypatch: pytest.MonkeyPatch) -> DirChunkStore:
    with failing(monkeypatch, "setxattr", errno.ENOTSUP, when=lambda *_: True):
        return DirChunkStore(data, markers)


def test_back_references_lie_in_files_where_the_file_system_has_no_attributes(
    without_attributes: DirChunkStore, data: Path, markers: DictMarkers
) -> None:
    without_attributes.put(A, b"body", b"ref")
    side = data / "default" / "backrefs" / "chunks" / "12c" / "a"
    assert side.read_bytes() == b"ref"
    again = DirChunkStore(data, markers)  # attributes work now, but that was decided when the folder was made
    assert again.backref(A) == b"ref"
    assert again.delete([A]) == [DELETED]
    assert not side.exists()


def test_a_back_reference_that_a_crash_left_behind_goes_with_the_next_deletion(
    without_attributes: DirChunkStore, data: Path
) -> None:
    without_attributes.put(A, b"body", b"ref")
    (data / "default" / "chunks" / "12c" / "a").unlink()
    assert without_attributes.delete([A]) == [ABSENT]
    assert not (data / "default" / "backrefs" / "chunks" / "12c" / "a").exists()


def test_a_back_reference_that_stays_keeps_its_entry_in_the_queue(
    without_attributes: DirChunkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_attributes.put(A, b"body", b"ref")
    calls: list[str] = []

    def second(name: str) -> bool:
        calls.append(name)
        return len(calls) == 2

    with failing(monkeypatch, "unlink", errno.EIO, when=second):
        assert only(without_attributes) == (FAILED, UNAVAILABLE)
    assert without_attributes.delete([A]) == [ABSENT]
