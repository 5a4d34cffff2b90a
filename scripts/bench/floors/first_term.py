"""Floor: imports what the daemon imports, makes a database, inserts one lease durably, says so, and exits.

first_term.py FOLDER
"""

from __future__ import annotations

import json
import sqlite3
import sys

from libraries import load

if __name__ == "__main__":
    load()
    db = sqlite3.connect(f"{sys.argv[1]}/floor.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE leases (lease TEXT PRIMARY KEY, holder TEXT) WITHOUT ROWID")
    db.execute("INSERT INTO leases VALUES ('gc-leader-0', 'floor')")
    print(json.dumps({"msg": "leader acquired"}), flush=True)
