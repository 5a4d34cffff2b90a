"""Unlinking the chunk files of one cluster: each folder synced once, an answer for every file. Any thread."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.ports.chunks import ABSENT, DELETED, REFUSED, UNAVAILABLE, DeleteState, Deletion
from strata_daemon.stores.chunks.folders import opened
from strata_daemon.stores.chunks.names import Place, backref_place
from strata_daemon.stores.chunks.root import IN_FILES, ClusterRoot

# Index of the answer, and the file's name, by folder.
Names = list[tuple[int, str]]
ByFolder = dict[tuple[str, ...], Names]

# What lies in the way of one name and says nothing about the others: a folder or a link there, or a protected file.
ODD_NAME = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EPERM})
FAILED = DeleteState.FAILED


def delete_in_cluster(root: ClusterRoot, by_folder: Mapping[tuple[str, ...], Names], answers: list[Deletion]) -> None:
    """Sets `answers`. What was unlinked and synced stays DELETED whatever comes after; what was not found counts as
    absent only while the folder is proved to be the right one."""
    every = [index for names in by_folder.values() for index, _ in names]
    for index in every:
        answers[index] = ABSENT
    try:
        with root.open() as (fd, backrefs):
            for folder, names in by_folder.items():
                _delete_in_folder(fd, folder, names, answers)
                if backrefs == IN_FILES:
                    _delete_backrefs(fd, folder, names, answers)
            if any(answers[index] is ABSENT for index in every):
                root.confirm(fd)
    except StoreUnavailable as exc:
        _fail([index for index in every if answers[index] is ABSENT], answers, Deletion(FAILED, UNAVAILABLE, str(exc)))


def _delete_in_folder(root_fd: int, folder: tuple[str, ...], names: Names, answers: list[Deletion]) -> None:
    """ABSENT too stands only behind the sync: the unlink of a process that crashed may not be durable yet."""
    try:
        with opened(root_fd, folder) as fd:
            for index, name in names:
                try:
                    os.unlink(name, dir_fd=fd)
                    answers[index] = DELETED
                except FileNotFoundError:
                    pass
                except OSError as exc:
                    answers[index] = _failure(exc, f"{'/'.join(folder)}/{name}")
            os.fsync(fd)
    except FileNotFoundError:
        pass  # a folder is made by the first chunk in it, and never removed
    except OSError as exc:
        unsure = [index for index, _ in names if answers[index].state is not FAILED]
        _fail(unsure, answers, _failure(exc, "/".join(folder)))


def _delete_backrefs(root_fd: int, folder: tuple[str, ...], names: Names, answers: list[Deletion]) -> None:
    """After the chunks: a crash in between leaves an absent chunk, whose next deletion comes here again."""
    gone = [(index, name) for index, name in names if answers[index].state is not FAILED]
    try:
        with opened(root_fd, backref_place(Place(folder, "")).folder) as fd:
            for _, name in gone:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=fd)
            os.fsync(fd)
    except FileNotFoundError:
        pass
    except OSError as exc:
        _fail([index for index, _ in gone], answers, _failure(exc, f"the back-references of {'/'.join(folder)}"))


def _fail(indexes: Sequence[int], answers: list[Deletion], failure: Deletion) -> None:
    for index in indexes:
        answers[index] = failure


def _failure(exc: OSError, what: str) -> Deletion:
    reason = REFUSED if exc.errno in ODD_NAME else UNAVAILABLE
    return Deletion(FAILED, reason, f"Deleting {what} failed ({exc.strerror}); it is tried again later.")
