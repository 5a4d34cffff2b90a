"""The folder of one cluster, and the proof that it is the right one: a marker file whose id the metadata store knows.

A folder that is missing, empty under an unmounted disk, or another cluster's is a failure and never an absent chunk
(faults.md 59). Nothing is kept open between calls, so a folder that goes away in mid-run is noticed. Any thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.stores.chunks.names import CHUNKS

MARKER = ".strata-chunks"
XATTR = "user.strata.backref"  # as Strata names it on RADOS
IN_XATTRS, IN_FILES = "xattrs", "files"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
MOST_MARKER_BYTES = 4096


class Markers(Protocol):
    """Which marker the folder of a cluster must show. Raises StoreUnavailable."""

    def expected(self, cluster: str) -> str | None: ...

    def record(self, cluster: str, marker: str) -> None:
        """Durable on return. Only called while nothing is recorded, perhaps by two processes with one marker."""
        ...


class ClusterRoot:
    """One cluster's folder. Nothing is written after the constructor, but for the files of the chunks."""

    def __init__(self, root: Path, cluster: str, markers: Markers, *, read_only: bool = False) -> None:
        """Makes the folder when no marker is recorded for the cluster. Raises PreflightError, StoreUnavailable."""
        self.path = root / cluster
        self._cluster = cluster
        self._expected = markers.expected(cluster)
        if self._expected is None and not read_only:
            try:
                self._expected = self._make()
            except OSError as exc:
                raise PreflightError(
                    f"The chunk folder {self.path} cannot be made ({exc.strerror}); correct STRATA_STATE_DIR or its"
                    " rights."
                ) from exc
            markers.record(cluster, self._expected)

    @contextmanager
    def open(self) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder, once its marker was seen; and where back-references lie.

        Raises StoreUnavailable."""
        try:
            fd = os.open(self.path, FOLDER)
        except OSError as exc:
            raise StoreUnavailable(self._missing(str(exc.strerror))) from exc
        try:
            yield fd, self._backrefs(fd)
        finally:
            os.close(fd)

    def confirm(self, fd: int) -> None:
        """Check that the path still leads to the folder behind `fd`. Raises StoreUnavailable.

        Done before an absent file is believed, and after a write: both may have met a folder that was moved away.
        """
        with self.open() as (again, _):
            if not os.path.samestat(os.fstat(fd), os.fstat(again)):
                raise StoreUnavailable(f"The chunk folder {self.path} was exchanged for another one just now.")

    def _backrefs(self, fd: int) -> str:
        if self._expected is None:
            raise StoreUnavailable(f"No chunk folder of the cluster {self._cluster} has been made yet.")
        try:
            marker, backrefs = _read_marker(fd)
            os.stat(CHUNKS, dir_fd=fd, follow_symlinks=False)  # made before the marker, so never rightly missing
        except OSError as exc:
            raise StoreUnavailable(self._missing(f"{exc.filename or MARKER}: {exc.strerror}")) from exc
        except ValueError as exc:
            raise StoreUnavailable(self._missing(f"its marker {MARKER} cannot be read: {exc}")) from exc
        if marker != self._expected:
            raise StoreUnavailable(self._missing(f"its marker is {marker}, but {self._expected} is expected"))
        return backrefs

    def _missing(self, why: str) -> str:
        return (
            f"The chunk folder {self.path} of the cluster {self._cluster} is not there ({why});"
            " mount or restore it: its chunks count as unknown until then."
        )

    def _make(self) -> str:
        """Make the folder and its marker, durable both; the marker's id. What is there with a marker is adopted: the
        process that made it ended before it could record it."""
        (self.path / CHUNKS).mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, FOLDER)
        try:
            if not (self.path / MARKER).exists():
                self._refuse_foreign()
                _write_marker(fd)
            _sweep_markers(fd)
            os.fsync(fd)
            for folder in (self.path.parent, self.path.parent.parent):
                _sync_folder(folder)
            return _read_marker(fd)[0]
        except ValueError as exc:
            raise PreflightError(f"The marker {self.path / MARKER} cannot be read ({exc}); restore the file.") from exc
        finally:
            os.close(fd)

    def _refuse_foreign(self) -> None:
        with os.scandir(self.path / CHUNKS) as entries:
            # The marker is looked for again: another process may have made it, and put a chunk, in the meantime.
            if next(entries, None) is not None and not (self.path / MARKER).exists():
                raise PreflightError(
                    f"The folder {self.path / CHUNKS} holds files but {self.path} has no marker {MARKER}: it is not"
                    " this store's; choose another STRATA_STATE_DIR, or restore the marker."
                )


def _read_marker(fd: int) -> tuple[str, str]:
    """The id, and where back-references lie. Raises OSError, ValueError."""
    marker_fd = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        found = json.loads(os.read(marker_fd, MOST_MARKER_BYTES))
    finally:
        os.close(marker_fd)
    if not isinstance(found, dict) or not isinstance(found.get("marker"), str):
        raise ValueError("it names no marker")
    if found.get("backrefs") not in (IN_XATTRS, IN_FILES):
        raise ValueError("it does not say where back-references lie")
    return found["marker"], found["backrefs"]


def _write_marker(fd: int) -> None:
    """Whole or not at all; of two processes that do this at once, one wins and both read the winner's."""
    marker = str(uuid4())
    name = f"{MARKER}.{marker}"
    file_fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=fd)
    try:
        text = json.dumps({"marker": marker, "backrefs": _where_backrefs_fit(file_fd)}) + "\n"
        os.write(file_fd, text.encode())
        os.fsync(file_fd)
    finally:
        os.close(file_fd)
    with suppress(FileExistsError, FileNotFoundError):  # the other process won, and may have swept already
        os.link(name, MARKER, src_dir_fd=fd, dst_dir_fd=fd)


def _sweep_markers(fd: int) -> None:
    """Once a marker stands nobody needs those under other names: ours, or that of a process that was killed."""
    for name in os.listdir(fd):
        if name.startswith(f"{MARKER}."):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=fd)


def _where_backrefs_fit(file_fd: int) -> str:
    try:
        os.setxattr(file_fd, XATTR, b"")
    except OSError:
        # No attributes here, or no room for them: asked once, so that the answer cannot change under old chunks.
        return IN_FILES
    return IN_XATTRS


def _sync_folder(path: Path) -> None:
    fd = os.open(path, FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
