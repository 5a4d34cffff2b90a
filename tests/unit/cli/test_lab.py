"""The parts of `lab`: which files, which lines, whole bytes or none, and a queue that is filled without a leak."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime.virtual import VirtualRuntime, VirtualWorld
from strata_daemon.cli import lab, progress, seed
from strata_daemon.cli.lab import (
    Size,
    Unfit,
    WrongName,
    body,
    check_cluster,
    files_of,
    listing,
    put_file,
    rows_to_remove,
    whole_file,
)
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.ports.chunks import ChunkName
from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.stores.chunks.memory import MemoryChunkStore
from strata_daemon.stores.memory import open_memory

REGION, LATER_MS = "r", 1 << 50


@dataclass(frozen=True)
class Stores:
    meta: EmbeddedMeta
    data: MemoryChunkStore
    runtime: VirtualRuntime

    def queued(self) -> Sequence[GCEntry]:
        return [entry for page in self.meta.gc_queue.pages(REGION, range(1024), LATER_MS, 100_000) for entry in page]


@pytest.fixture
def stores() -> Iterator[Stores]:
    runtime = VirtualRuntime(VirtualWorld(), "lab")
    memory = open_memory(REGION, runtime)
    yield Stores(memory.meta, MemoryChunkStore(), runtime)
    memory.close()


def put(stores: Stores, tmp_path: Path, key: str, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert put_file(stores, "b", key, path) == len(content)


def test_a_file_is_put_under_its_name_and_a_folder_under_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for path in (folder / "b.txt", folder / "sub" / "a.txt", tmp_path / "single"):
        path.write_text("x")
    (folder / "link").symlink_to(tmp_path / "single")
    assert [key for _, key in files_of(tmp_path / "single", "p/")] == ["p/single"]
    assert [key for _, key in files_of(folder)] == ["folder/b.txt", "folder/sub/a.txt"]


def test_a_name_that_is_not_utf_8_is_refused_with_its_bytes(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    path.write_text("x")
    with pytest.raises(WrongName, match=r"\\xff"):
        list(files_of(path))


def test_what_was_put_is_listed_and_comes_back(stores: Stores, tmp_path: Path) -> None:
    put(stores, tmp_path, "notes.txt", b"hello")
    put(stores, tmp_path, "other", b"")
    assert [line.split()[-1] for line in listing(stores.meta, None)] == ["b"]
    (line,) = listing(stores.meta, "b", "not")
    assert (line.split()[0], line.split()[-1]) == ("5", "notes.txt")
    assert b"".join(body(stores.meta, stores.data, "b", "notes.txt")) == b"hello"
    assert b"".join(body(stores.meta, stores.data, "b", "other")) == b""


def test_what_is_not_there_is_said_by_name(stores: Stores, tmp_path: Path) -> None:
    put(stores, tmp_path, "k", b"x")
    with pytest.raises(WrongName, match="no bucket 'none'"):
        list(listing(stores.meta, "none"))
    with pytest.raises(WrongName, match="no object 'none' in 'b'"):
        list(body(stores.meta, stores.data, "b", "none"))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda data, chunk: data.delete([chunk]), "misses its chunk"),
        (lambda data, chunk: data._chunks.update({chunk: (b"hellO", b"")}), "is not as it was written"),
        (lambda data, chunk: data._chunks.update({chunk: (b"hell", b"")}), "is not as it was written"),
    ],
    ids=["gone", "changed", "short"],
)
def test_a_damaged_object_is_not_given_out(stores: Stores, tmp_path: Path, damage: Any, complaint: str) -> None:
    put(stores, tmp_path, "k", b"hello")
    (chunk,) = stores.data._chunks
    damage(stores.data, chunk)
    with pytest.raises(Unfit, match=complaint):
        list(body(stores.meta, stores.data, "b", "k"))


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(Unfit, match="broken"), whole_file(target) as file:
        file.write(b"half")
        raise Unfit("broken")
    assert list(tmp_path.iterdir()) == []
    with whole_file(target) as file:
        file.write(b"whole")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"whole")]


def test_a_file_that_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unfit, match="cannot be written"), whole_file(tmp_path / "none" / "out"):
        pass


def test_one_object_or_all_of_a_prefix_are_removed(stores: Stores, tmp_path: Path) -> None:
    for key in ("a", "p/1", "p/2"):
        put(stores, tmp_path, key, b"x")
    assert [row.key for row in rows_to_remove(stores.meta, "b", None, "p/")] == ["p/1", "p/2"]
    for row in rows_to_remove(stores.meta, "b", "a", ""):
        assert lab.remove_row(stores, row)
    assert [row.key for row in rows_to_remove(stores.meta, "b", None, "")] == ["p/1", "p/2"]
    assert len(stores.queued()) == 1


@pytest.mark.parametrize("arguments", [["b"], ["b", "k", "--all"], ["b", "--all", "--prefix", "p"]])
def test_rm_takes_exactly_one_way_to_say_what(arguments: list[str]) -> None:
    outcome = CliRunner().invoke(lab.lab, ["rm", *arguments])
    assert (outcome.exit_code, "Give one of KEY, --prefix and --all." in outcome.output) == (2, True)


@pytest.mark.parametrize("command", ["put", "ls", "get", "rm", "seed-gc"])
def test_each_command_shows_an_example(command: str) -> None:
    outcome = CliRunner().invoke(lab.lab, [command, "--help"])
    assert (outcome.exit_code, f"Example: strata-daemon lab {command}" in outcome.output) == (0, True)


@pytest.mark.parametrize(("written", "size"), [("512", 512), ("1KiB", 1024), ("4MB", 4_000_000), ("0", 0)])
def test_sizes_are_read_with_their_unit(written: str, size: int) -> None:
    assert Size().convert(written, None, None) == size


@pytest.mark.parametrize("written", ["", "x", "1 elephant", "-1"])
def test_what_is_no_size_is_refused(written: str) -> None:
    with pytest.raises(click.BadParameter, match="is no size"):
        Size().convert(written, None, None)


# seed-gc


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed, "BATCH", 10)
    monkeypatch.setattr(seed, "SLAB", 25)


def filled(stores: Stores, count: int, size_bytes: int | None, data: Any = None, cluster: str = "default") -> list[int]:
    done: list[int] = []
    if size_bytes is None:
        seed.seed_rows(stores.meta.gc_queue, stores.runtime, REGION, count, done.append, cluster)
    else:
        seed.seed_with_files(stores.meta, data or stores.data, stores.runtime, count, size_bytes, done.append, cluster)
    return done


@pytest.mark.usefixtures("small_batches")
def test_each_queued_chunk_has_its_file(stores: Stores) -> None:
    assert filled(stores, 53, 7) == [10, 10, 5, 10, 10, 5, 3]
    entries = stores.queued()
    assert {ChunkName(e.cluster, e.pool, e.namespace, e.oid) for e in entries} == set(stores.data._chunks)
    assert len(entries) == 53
    assert all(entry.shard == gc_shard(entry.oid) for entry in entries)
    assert {len(content) for content, _ in stores.data._chunks.values()} == {7}
    assert not stores.meta.objects.intents()


@pytest.mark.usefixtures("small_batches")
def test_rows_alone_are_queued_without_files(stores: Stores) -> None:
    filled(stores, 23, None)
    assert len(stores.queued()) == 23
    assert not stores.data._chunks


@pytest.mark.usefixtures("small_batches")
def test_files_that_could_not_all_be_written_are_queued_all_the_same(stores: Stores) -> None:
    class Full:
        def put_many(self, chunks: Any) -> None:
            assert [set(intent.chunks) for intent in stores.meta.objects.intents()] == [{c.name for c in chunks}]
            stores.data.put_many(chunks[:3])
            raise StoreUnavailable("full")

    with pytest.raises(StoreUnavailable, match="full"):
        filled(stores, 53, 7, Full())
    assert len(stores.data._chunks) == 3
    assert {entry.oid for entry in stores.queued()} >= {chunk.oid for chunk in stores.data._chunks}
    assert not stores.meta.objects.intents()


@pytest.mark.parametrize("size_bytes", [None, 7], ids=["rows", "files"])
def test_the_chunks_are_of_the_cluster_that_was_named(stores: Stores, size_bytes: int | None) -> None:
    filled(stores, 3, size_bytes, cluster="mem")
    assert [entry.cluster for entry in stores.queued()] == ["mem"] * 3
    assert {chunk.cluster for chunk in stores.data._chunks} == ({"mem"} if size_bytes else set())


def test_files_of_a_cluster_that_is_not_known_are_refused_before_anything_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed, "seed_with_files", lambda *_: pytest.fail("it was filled"))
    settings = ["--state-dir", str(tmp_path / "state")]
    done = CliRunner().invoke(lab.lab, ["seed-gc", *settings, "--count", "1", "--cluster", "nowhere"])
    assert done.exit_code == 2
    assert "'nowhere' takes no files here (known: default); --no-files queues rows alone." in done.output


def test_a_cluster_that_is_known_takes_files(stores: Stores) -> None:
    check_cluster(stores.data, "mem")
    with pytest.raises(WrongName, match="known: default, mem"):
        check_cluster(stores.data, "nowhere")


def test_where_there_is_no_terminal_a_line_comes_each_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter((0.0, 3.0, 9.9, 10.0, 10.0, 19.0, 20.5, 20.5))
    with progress.progress("queueing", 50_000, lambda: next(clock)) as advance:
        for _ in range(5):
            advance(1000)
    assert capsys.readouterr().out.splitlines() == ["queueing: 3,000 of 50,000", "queueing: 5,000 of 50,000"]
