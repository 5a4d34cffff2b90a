"""One SQLite file: opened once, refused when it is not ours, used by one thread at a time.

One connection behind a lock, since SQLite lets one writer in anyway, calls are short and batches bounded. Each error
becomes PreflightError at the opening and StoreUnavailable later. What stands in the file is its users' concern.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.stores.sqlite.mounts import refuse_network

LOCKED_PAUSE_S = 0.05
SLICE_S, PAUSE_S = 0.05, 0.005  # of the wait for another process: asleep in SQLite with our lock, and without it
BUSY_S = 5.0  # another process writes: batches are bounded, so nobody holds the file this long
NEEDED_BYTES = 64 * 1024  # of a -shm file and the first pages of a -wal
MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file must be: `application_id` tells ours from other programs', `version` which statements made it."""

    application_id: int
    version: int
    statements: Sequence[str]


class Database:
    """Thread-safe. `read` and `write` are the only ways in. `busy_s`: how long either waits while another process has
    the file; set by its owner, before others use it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, runtime: Runtime, busy_s: float = BUSY_S) -> None:
        self.path = path
        self.busy_s = busy_s
        self._connection = connection
        self._runtime = runtime
        self._lock = threading.Lock()  # guards _connection, from the first statement of a transaction to its end

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A read transaction. Raises StoreUnavailable."""
        with self._transaction("BEGIN", "SELECT 1 FROM sqlite_schema LIMIT 1"):  # its first look at the file
            try:
                yield self._connection
            finally:
                self._end("COMMIT")

    @contextmanager
    def write(self, *, is_durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A write transaction; all or nothing. `is_durable`: on disk when this returns, whatever happens to the
        machine. Raises StoreUnavailable."""
        with self._transaction(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}", "BEGIN IMMEDIATE"):
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                self._end("ROLLBACK")

    @contextmanager
    def _transaction(self, *statements: str) -> Iterator[None]:
        """Holds the lock from the first of `statements`. While another process has the file it is not held: a read, or
        the close, waits for no write that waits."""
        give_up_at = self._runtime.now() + self.busy_s
        with self._translated():
            while not self._try_begin(statements, is_last=self._runtime.now() >= give_up_at):
                self._runtime.event().wait(PAUSE_S)
            try:
                yield
            finally:
                self._lock.release()

    def _try_begin(self, statements: Sequence[str], *, is_last: bool) -> bool:
        """Whether the transaction has begun, and the lock is held."""
        self._lock.acquire()
        try:
            for statement in statements:
                self._connection.execute(statement).fetchall()
        except BaseException as exc:
            try:
                self._end("ROLLBACK")
            finally:
                self._lock.release()
            if is_last or not isinstance(exc, sqlite3.Error) or not _is_locked(exc):
                raise
            return False
        return True

    def _end(self, statement: str) -> None:
        if self._connection.in_transaction:
            self._connection.execute(statement)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise StoreUnavailable(f"{self.path}: {exc}") from exc

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def open_database(
    path: Path, schema: Schema, runtime: Runtime, *, read_only: bool = False, busy_s: float = BUSY_S
) -> Database:
    """Open `path`, making it and its folder when they are not there (never with `read_only`).

    Raises PreflightError with one sentence: another program's file, a damaged one, one of a newer schema, a folder
    that may not be written, a full disk, a network file system.
    """
    give_up_at = runtime.now() + busy_s
    while True:
        try:
            return _open(path, schema, runtime, read_only=read_only, busy_s=busy_s)
        except OSError as exc:
            raise PreflightError(
                f"The state folder {path.parent} cannot be used: {exc.strerror or exc}."
                " Make it writable for this user, or choose another by STRATA_STATE_DIR."
            ) from exc
        except sqlite3.Error as exc:
            # Of two processes that make the file at once one may find it locked at the switch to WAL, where SQLite
            # does not wait by itself.
            if not _is_locked(exc) or runtime.now() >= give_up_at:
                raise PreflightError(_sentence(path, exc)) from exc
        runtime.event().wait(LOCKED_PAUSE_S)


def _open(path: Path, schema: Schema, runtime: Runtime, *, read_only: bool, busy_s: float) -> Database:
    connection = _connect(path, read_only=read_only, busy_s=busy_s)
    try:
        _prepare(connection, path, schema, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    connection.execute(f"PRAGMA busy_timeout = {SLICE_S * 1000:.0f}")
    return Database(path, connection, runtime, busy_s)


def _is_locked(exc: sqlite3.Error) -> bool:
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def open_in_memory(schema: Schema, runtime: Runtime) -> Database:
    """A database that dies with the process; the same statements as one on disk."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.text_factory = _decoded
    for statement in schema.statements:
        connection.execute(statement)
    return Database(Path(":memory:"), connection, runtime)


def _connect(path: Path, *, read_only: bool, busy_s: float) -> sqlite3.Connection:
    if read_only:
        if not path.exists():
            raise PreflightError(
                f"There is no store at {path.parent} yet: run the daemon once, or name its folder by STRATA_STATE_DIR."
            )
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite opens a file in a folder without this right, and fails at the first write only.
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(13, os.strerror(13))
    refuse_network(path.parent)
    _refuse_foreign(path)
    # Without a -wal file nobody has it open, and a reader that is not told so would leave one behind.
    is_open_somewhere = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=rwc" if not read_only else "mode=ro" if is_open_somewhere else "immutable=1"
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{mode}",
        uri=True,
        timeout=busy_s,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = _decoded
    return connection


def _decoded(raw: bytes) -> str:
    """Text as somebody stored it: what is not UTF-8 must not break the reading of other rows."""
    return raw.decode("utf-8", "surrogateescape")


def _refuse_foreign(path: Path) -> None:
    if path.is_dir():
        raise PreflightError(f"{path} is a folder where a database should be: move it away.")
    if path.exists():
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
        if head and head != MAGIC:
            raise PreflightError(
                f"{path} is no SQLite database: move it away, or choose another folder by STRATA_STATE_DIR."
            )


def _prepare(connection: sqlite3.Connection, path: Path, schema: Schema, *, read_only: bool) -> None:
    # Looked at before anything is changed: the switch to WAL would change another program's file. In one transaction,
    # since somebody may be making the file at this moment.
    connection.execute("BEGIN")
    _check(connection, path, schema)
    connection.execute("COMMIT")
    if read_only:
        return
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")  # of two processes that create the file at once, the second finds it made
    if _check(connection, path, schema):
        for statement in schema.statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {schema.version}")
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: Path, schema: Schema) -> bool:
    """Whether the file is empty. Raises PreflightError when it is not ours, newer, or damaged."""
    application, version, tables = (
        connection.execute(statement).fetchone()[0]
        for statement in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    )
    if application == 0 and version == 0 and tables == 0:
        return True
    if application != schema.application_id:
        raise PreflightError(
            f"{path} is a database of another program: move it away, or choose another folder by STRATA_STATE_DIR."
        )
    if version > schema.version:
        raise PreflightError(
            f"{path} was written by a newer strata-daemon (schema {version}, this one knows {schema.version}):"
            " upgrade this one, or choose another folder by STRATA_STATE_DIR."
        )
    page_count, page_size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    # A file that was cut short opens well and fails at the first row behind the cut.
    if path.stat().st_size < page_count * page_size and not path.with_name(f"{path.name}-wal").exists():
        raise sqlite3.DatabaseError("database disk image is malformed")
    return False


def _sentence(path: Path, exc: sqlite3.Error) -> str:
    """What an error at the opening means, and what to do."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return (
            f"{path} cannot be written ({exc}): give this user the right, or choose another folder by STRATA_STATE_DIR."
        )
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path.parent)):
        return f"The disk under {path.parent} is full: make room, then start again."
    if code == sqlite3.SQLITE_IOERR:
        return f"{path} cannot be read or written ({exc}): look at the disk of {path.parent}, then start again."
    if _is_locked(exc):
        return f"{path} is locked by another process for longer than {BUSY_S:.0f} s: end it, then start again."
    return f"{path} is damaged ({exc}): stop every daemon that uses it, then restore it or move it away."


def _is_full(folder: Path) -> bool:
    """SQLite tells of a full disk as an I/O error when it is the -shm file that does not fit."""
    try:
        free = os.statvfs(folder)
    except OSError:
        return False
    return free.f_bavail * free.f_frsize < NEEDED_BYTES
