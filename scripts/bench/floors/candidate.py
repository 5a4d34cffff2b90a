"""Floor: a candidate for one lease, a row in SQLite, that asks for it a hundred times a second. Once it leads it
unlinks what lies in a folder, and renews; at SIGTERM it gives the row back.

    candidate.py FOLDER NODE TTL_S RENEW_S

Its log lines bear the daemon's phrases, so that both are measured by the same loop.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import time

LOOK_S = 0.01
TAKE = """
    INSERT INTO lease VALUES (1, ?1, ?2) ON CONFLICT DO UPDATE SET holder = ?1, expires = ?2
    WHERE holder = ?1 OR expires < ?3
"""


def say(msg: str) -> None:
    print(json.dumps({"msg": msg}), flush=True)


def try_take(db: sqlite3.Connection, node: str, ttl_s: float) -> bool:
    """Take or renew the lease."""
    now = time.monotonic()
    return db.execute(TAKE, (node, now + ttl_s, now)).rowcount == 1


def main(folder: str, node: str, ttl_s: float, renew_s: float) -> None:
    db = sqlite3.connect(f"{folder}/floor.db", isolation_level=None, timeout=5.0)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE IF NOT EXISTS lease (one INTEGER PRIMARY KEY, holder TEXT, expires REAL)")
    say("daemon started")
    while not try_take(db, node, ttl_s):
        time.sleep(LOOK_S)
    chunks = f"{folder}/data/default/chunks/000"
    for name in os.listdir(chunks):
        os.unlink(f"{chunks}/{name}")
    say("leader acquired")
    try:
        while True:
            time.sleep(renew_s)
            try_take(db, node, ttl_s)
    finally:
        db.execute("DELETE FROM lease WHERE holder = ?", (node,))


def leave(number: int, frame: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, leave)
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
