"""The file `leases.db`: in which boot we are, and how to look into it without writing. No statement of a lease here.

Instants in it are CLOCK_BOOTTIME seconds, which mean something on one boot and in one time namespace only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from strata_daemon.base.errors import PreflightError
from strata_daemon.base.runtime import Runtime
from strata_daemon.stores.sqlite.database import Database, open_database
from strata_daemon.stores.sqlite.lease_rows import SCHEMA


def read_boot_id() -> str:
    """The boot and the time namespace in which CLOCK_BOOTTIME counts. Raises PreflightError."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        time_namespace = Path("/proc/self/ns/time")  # absent before Linux 5.6
        return f"{boot} {os.readlink(time_namespace)}" if time_namespace.is_symlink() else boot
    except OSError as exc:
        raise PreflightError(f"The boot id cannot be read ({exc}), and leases on SQLite need it: mount /proc.") from exc


def identity(path: Path) -> tuple[int, int]:
    """Which file stands at `path`: device and inode. Raises OSError when there is none."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def open_leases(path: Path, runtime: Runtime) -> Database:
    """Open or create the file. Raises PreflightError."""
    return open_database(path, SCHEMA, runtime)


@contextmanager
def reading(path: Path, busy_s: float) -> Iterator[sqlite3.Connection | None]:
    """A connection for one look, by any thread; None when there is no table to look at yet. It creates nothing.

    Raises PreflightError when the file is not one of ours, sqlite3.Error and OSError when it cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        yield None
        return
    # Without a -wal file nobody has it open; a reader that is not told so would create one, and leave it behind.
    is_open_somewhere = path.with_name(f"{path.name}-wal").exists()
    uri = f"{path.resolve().as_uri()}?{'mode=ro' if is_open_somewhere else 'immutable=1'}"
    with closing(sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None)) as connection:
        connection.execute("BEGIN")  # one state of the file, though somebody may be creating it
        ((application,),) = connection.execute("PRAGMA application_id").fetchall()
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        if application == 0 and tables == 0:
            yield None
            return
        if application != SCHEMA.application_id:
            raise PreflightError(f"{path} is a database of another program: move it away, or choose another folder.")
        if version > SCHEMA.version:
            raise PreflightError(f"{path} was written by a newer strata-daemon (schema {version}): upgrade this one.")
        yield connection
