"""Floor: one process that keeps many leases in SQLite: one transaction a renewal period, nothing else.

    leases.py FOLDER COUNT RENEW_S

The libraries of the daemon are imported, so that its memory compares.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time

from libraries import load

TTL_S = 30.0

if __name__ == "__main__":
    load()
    folder, count, renew_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    db = sqlite3.connect(f"{folder}/floor.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE leases (lease TEXT PRIMARY KEY, holder TEXT, expires REAL) WITHOUT ROWID")
    names = [f"gc-leader-{index}" for index in range(count)]
    db.execute("BEGIN IMMEDIATE")
    db.executemany("INSERT INTO leases VALUES (?, 'floor', ?)", [(name, time.monotonic() + TTL_S) for name in names])
    db.execute("COMMIT")
    print(json.dumps({"msg": "leader acquired"}), flush=True)
    while True:
        time.sleep(renew_s)
        expires = time.monotonic() + TTL_S
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "UPDATE leases SET expires = ? WHERE lease = ? AND holder = 'floor'", [(expires, name) for name in names]
        )
        db.execute("COMMIT")
