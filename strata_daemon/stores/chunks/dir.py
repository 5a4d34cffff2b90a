"""Chunks as files: `<root>/<cluster>/chunks/<logical gc shard, three hex digits>/<oid>`. Any thread.

A file is written under its final name at once: the caller's intent names it before that (ports/objects.py), so a half
written one is known and collected, and there are no temporary names to sweep. Nothing is shared between calls.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from strata_daemon.base.errors import ChunkRefused, StoreUnavailable
from strata_daemon.ports.chunks import (
    DELETED,
    UNKNOWN_CLUSTER,
    ChunkName,
    DeleteState,
    Deletion,
    NewChunk,
)
from strata_daemon.stores.chunks.deletion import ByFolder, delete_in_cluster
from strata_daemon.stores.chunks.folders import opened, sync_all
from strata_daemon.stores.chunks.names import Place, backref_place, bad_name, place, refusal
from strata_daemon.stores.chunks.root import IN_FILES, XATTR, ClusterRoot, Markers

__all__ = ["DirChunkStore", "Markers"]

FEW = 4  # up to here a sync a file is cheaper than one of the whole file system
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class DirChunkStore:
    """A folder a cluster below `root`. Raises PreflightError and StoreUnavailable when made.

    `read_only` makes no folder: for somebody who only looks.
    """

    delete_time_s = 1.0
    delete_batch = 500

    def __init__(
        self, root: Path, markers: Markers, *, clusters: Sequence[str] = ("default",), read_only: bool = False
    ) -> None:
        self._roots = {name: ClusterRoot(root, name, markers, read_only=read_only) for name in clusters}

    def clusters(self) -> frozenset[str]:
        return frozenset(self._roots)

    def delete(self, chunks: Sequence[ChunkName]) -> list[Deletion]:
        answers = [DELETED] * len(chunks)
        by_cluster: defaultdict[str, ByFolder] = defaultdict(lambda: defaultdict(list))
        for index, chunk in enumerate(chunks):
            if chunk.cluster not in self._roots:
                answers[index] = Deletion(DeleteState.FAILED, UNKNOWN_CLUSTER, self._unknown(chunk.cluster))
            elif (at := place(chunk)) is None:
                answers[index] = bad_name(chunk)
            else:
                by_cluster[chunk.cluster][at.folder].append((index, at.name))
        for cluster, by_folder in by_cluster.items():
            delete_in_cluster(self._roots[cluster], by_folder, answers)
        return answers

    def put(self, chunk: ChunkName, body: bytes, backref: bytes) -> None:
        self.put_many([NewChunk(chunk, body, backref)])

    def put_many(self, chunks: Sequence[NewChunk]) -> None:
        by_cluster: defaultdict[str, list[tuple[Place, NewChunk]]] = defaultdict(list)
        for chunk in chunks:
            self._root(chunk.name.cluster)
            by_cluster[chunk.name.cluster].append((self._place(chunk.name), chunk))
        for cluster, placed in by_cluster.items():
            with _unavailable(f"writing {len(placed)} chunks to {self._roots[cluster].path}"):
                _put_in_cluster(self._roots[cluster], placed)

    def get(self, chunk: ChunkName) -> bytes:
        at, root = self._place(chunk), self._root(chunk.cluster)
        with _unavailable(f"reading the chunk {chunk.oid} in {root.path}"), root.open() as (fd, _):
            return _read(root, fd, at, chunk)

    def backref(self, chunk: ChunkName) -> bytes:
        at, root = self._place(chunk), self._root(chunk.cluster)
        with _unavailable(f"reading the back-reference of {chunk.oid} in {root.path}"), root.open() as (fd, kept):
            return _backref(root, fd, kept, at, chunk)

    def backrefs(self, chunks: Sequence[ChunkName]) -> list[bytes | None | StoreUnavailable]:
        """A name that could leave the folder has none here: its deletion is refused."""
        found: list[bytes | None | StoreUnavailable] = [None] * len(chunks)
        by_cluster: defaultdict[str, list[tuple[int, Place]]] = defaultdict(list)
        for index, chunk in enumerate(chunks):
            at = place(chunk)
            if chunk.cluster in self._roots and at is not None:
                by_cluster[chunk.cluster].append((index, at))
        for cluster, places in by_cluster.items():
            root = self._roots[cluster]
            try:
                with _unavailable(f"reading back-references in {root.path}"), root.open() as (fd, kept):
                    for index, at in places:
                        found[index] = _backref_if_there(root, fd, kept, at, chunks[index])
            except StoreUnavailable as exc:
                for index, _ in places:
                    found[index] = exc
        return found

    def _root(self, cluster: str) -> ClusterRoot:
        root = self._roots.get(cluster)
        if root is None:
            raise StoreUnavailable(self._unknown(cluster))
        return root

    def _place(self, chunk: ChunkName) -> Place:
        at = place(chunk)
        if at is None:
            raise ChunkRefused(refusal(chunk))
        return at

    def _unknown(self, cluster: str) -> str:
        known = ", ".join(sorted(self._roots))
        return f"The cluster {cluster[:100]!r} is not known to this process, which knows {known}."


@contextmanager
def _unavailable(doing: str) -> Iterator[None]:
    """Translates the system's errors; "not there" is KeyError and passes."""
    try:
        yield
    except OSError as exc:
        raise StoreUnavailable(f"Failed at {doing}: {exc.strerror}.") from exc


def _put_in_cluster(root: ClusterRoot, placed: Sequence[tuple[Place, NewChunk]]) -> None:
    by_folder: defaultdict[tuple[str, ...], list[tuple[str, NewChunk]]] = defaultdict(list)
    for at, chunk in placed:
        by_folder[at.folder].append((at.name, chunk))
    each_synced = len(placed) <= FEW
    with root.open() as (fd, backrefs):
        in_files = backrefs == IN_FILES
        for folder, named in by_folder.items():
            if in_files:
                _write(
                    fd, backref_place(Place(folder, "")).folder, [(n, c.backref, None) for n, c in named], each_synced
                )
            attributes = [(n, c.body, None if in_files else c.backref) for n, c in named]
            _write(fd, folder, attributes, each_synced)
        if not each_synced:
            sync_all(fd)
        root.confirm(fd)


def _write(
    root_fd: int, folder: tuple[str, ...], files: Sequence[tuple[str, bytes, bytes | None]], each_synced: bool
) -> None:
    """Files of (name, content, attribute). Raises OSError, ChunkRefused."""
    with opened(root_fd, folder, make=True) as fd:
        for name, content, attribute in files:
            _write_one(fd, name, content, attribute, synced=each_synced)
        if each_synced:
            os.fsync(fd)


def _write_one(folder_fd: int, name: str, content: bytes, attribute: bytes | None, *, synced: bool) -> None:
    try:
        fd = os.open(name, NEW_FILE, 0o640, dir_fd=folder_fd)
    except FileExistsError as exc:
        raise ChunkRefused(f"The chunk {name!r} is there already, and no name is used twice.") from exc
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        if attribute:
            os.setxattr(fd, XATTR, attribute)
        if synced:
            os.fsync(fd)
    except OSError:
        with suppress(OSError):  # what stays is named by the caller's intent
            os.unlink(name, dir_fd=folder_fd)
        raise
    finally:
        os.close(fd)


def _backref(root: ClusterRoot, fd: int, kept: str, at: Place, chunk: ChunkName) -> bytes:
    """Empty: the chunk was written without one. Raises KeyError, OSError."""
    if kept == IN_FILES:
        return _read(root, fd, backref_place(at), chunk)
    with _existing(root, fd, at, chunk) as file_fd:
        try:
            return os.getxattr(file_fd, XATTR)
        except OSError as exc:
            if exc.errno == errno.ENODATA:
                return b""
            raise


def _backref_if_there(root: ClusterRoot, fd: int, kept: str, at: Place, chunk: ChunkName) -> bytes | None:
    try:
        return _backref(root, fd, kept, at, chunk)
    except KeyError:
        return None


@contextmanager
def _existing(root: ClusterRoot, root_fd: int, at: Place, chunk: ChunkName) -> Iterator[int]:
    """A descriptor of the file. Raises KeyError when it is surely absent, OSError, StoreUnavailable."""
    try:
        with opened(root_fd, at.folder) as folder_fd:
            fd = os.open(at.name, READ, dir_fd=folder_fd)
    except FileNotFoundError as exc:
        root.confirm(root_fd)
        raise KeyError(chunk) from exc
    try:
        yield fd
    finally:
        os.close(fd)


def _read(root: ClusterRoot, root_fd: int, at: Place, chunk: ChunkName) -> bytes:
    with _existing(root, root_fd, at, chunk) as fd, open(fd, "rb", closefd=False) as file:
        return file.read()
