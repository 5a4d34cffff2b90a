"""Opening, making and syncing folders below a cluster's, by descriptors and without following a link. Any thread."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened(root_fd: int, folder: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """A descriptor of `folder` below `root_fd`. With `make` what is missing is made, each name durable. Raises OSError:
    FileNotFoundError when a part is missing, NotADirectoryError or ELOOP when one is a link."""
    fd = os.dup(root_fd)
    try:
        for name in folder:
            below = _step(fd, name, make=make)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _step(fd: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=fd)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another thread or process was faster, but its sync may still be under way
        os.mkdir(name, dir_fd=fd)
    os.fsync(fd)
    return os.open(name, FOLDER, dir_fd=fd)


def sync_all(fd: int) -> None:
    """Sync the whole file system that holds `fd` (syncfs): one call for many new files. Raises OSError, also for a
    write of somebody else that failed since (Linux 5.8)."""
    if _libc().syncfs(fd) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
