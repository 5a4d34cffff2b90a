"""Which processes are at work on intents: each holds a lock on a file of its own for as long as it lives.

A lock ends with its process however that ends, unlike a process id, which another may bear by then.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from strata_daemon.base.errors import StoreUnavailable

NEW = ".new-"
IS_NAME = re.compile(r"(\.new-)?[0-9a-f-]{36}")
TRIES = 10


class Writers(Protocol):
    """Names living processes."""

    def own(self) -> str: ...

    def is_alive(self, name: str) -> bool: ...


class OneWriter:
    """The only process that a store in memory ever sees."""

    def own(self) -> str:
        return "this process"

    def is_alive(self, name: str) -> bool:
        return name == self.own()


class WriterFiles:
    """Lock files under `folder`, one a writer. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()  # guards _name and _descriptor
        self._name: str | None = None
        self._descriptor = -1

    def own(self) -> str:
        """This process's name; made and locked at the first call. Raises StoreUnavailable."""
        with self._lock:
            if self._name is None:
                self._name, self._descriptor = self._make()
            return self._name

    def _make(self) -> tuple[str, int]:
        """Raises StoreUnavailable."""
        try:
            for _ in range(TRIES):
                made = self._try_make()
                if made is not None:
                    return made
        except OSError as exc:
            raise StoreUnavailable(f"{self._folder}: {exc.strerror or exc}") from exc
        raise StoreUnavailable(f"{self._folder}: somebody else removed our file there, {TRIES} times in a row")

    def _try_make(self) -> tuple[str, int] | None:
        """Locked under a name that nobody asks about, then renamed: a file under its own name is always locked. None
        when the sweep of another process came before our lock."""
        name = str(uuid4())
        new = self._folder / f"{NEW}{name}"
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(self._folder / name)
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            new.unlink(missing_ok=True)
            return None
        return name, descriptor

    def is_alive(self, name: str) -> bool:
        """Whether the writer's process lives. A file that is gone was its own process's to remove."""
        with self._lock:
            if name == self._name:
                return True
        # What is no name of ours may be any text in a spoilt intent, such as one with a slash.
        return IS_NAME.fullmatch(name) is not None and self._is_locked(name)

    def _is_locked(self, name: str) -> bool:
        try:
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise StoreUnavailable(f"{self._folder}: {exc.strerror or exc}") from exc
        try:
            # Shared, so that two who ask at once do not take each other for the writer.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def sweep(self) -> None:
        """Remove the files of dead writers. Raises StoreUnavailable."""
        try:
            for path in self._folder.iterdir() if self._folder.is_dir() else ():
                if not self.is_alive(path.name):
                    path.unlink(missing_ok=True)
        except OSError as exc:
            raise StoreUnavailable(f"{self._folder}: {exc.strerror or exc}") from exc

    def close(self) -> None:
        with self._lock:
            if self._name is not None:
                (self._folder / self._name).unlink(missing_ok=True)
                os.close(self._descriptor)
                self._name = None
