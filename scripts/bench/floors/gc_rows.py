"""Floor: a bare loop of the SQLite statements of a gc drain. Reads a page, deletes its rows, commits; no files.

    gc_rows.py STATE_FOLDER BATCH [--empty]

One thread, no lease, no log. With --empty it must find no row: what is left is the start of the process.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]  # region, shard_id, enqueued_at, oid, cluster, pool, namespace

READ = """
    SELECT region, shard_id, enqueued_at, oid, cluster, pool, namespace FROM gc_entries
    WHERE (region, shard_id, enqueued_at, oid) > (?, ?, ?, ?) AND enqueued_at <= ?
    ORDER BY region, shard_id, enqueued_at, oid LIMIT ?
"""
DELETE = "DELETE FROM gc_entries WHERE region = ? AND shard_id = ? AND enqueued_at = ? AND oid = ?"


def drain(state: Path, batch: int, delete: Callable[[Sequence[Row]], None]) -> int:
    """The number of rows; `delete` is called for each page before its rows go."""
    db = sqlite3.connect(state / "strata.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    before_ms = int(time.time() * 1000)
    after: Row = ("", -1, -1, "")
    total = 0
    while page := db.execute(READ, (*after, before_ms, batch)).fetchall():
        delete(page)
        keys = [row[:4] for row in page]
        db.execute("BEGIN IMMEDIATE")
        db.executemany(DELETE, keys)
        db.execute("COMMIT")
        after = keys[-1]
        total += len(page)
    db.close()
    return total


def require_rows(total: int) -> None:
    if bool(total) is ("--empty" in sys.argv):
        sys.exit(f"{total} rows were found")


if __name__ == "__main__":
    require_rows(drain(Path(sys.argv[1]), int(sys.argv[2]), lambda page: None))
