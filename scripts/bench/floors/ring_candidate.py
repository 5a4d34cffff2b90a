"""Floor: a candidate for one lease on a ring that looks at it a hundred times a second. Once it leads it unlinks what
lies in a folder, and renews; at SIGTERM it gives the row back.

    ring_candidate.py HOSTS DATA_CENTRE KEYSPACE LEASE FOLDER TTL_S RENEW_S

Its log lines bear the daemon's phrases, so that both are measured by the same loop.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any
from uuid import uuid4

from ring_driver import connect, prepare, say

LOOK_S = 0.01


def leave(number: int, frame: object) -> None:
    sys.exit(0)


def is_applied(session: Any, statement: Any, values: tuple[object, ...]) -> bool:
    return bool(session.execute(statement, values).one()[0])


def main(hosts: str, data_centre: str, keyspace: str, lease: str, folder: str, ttl_s: int, renew_s: float) -> None:
    session = connect(hosts, data_centre)
    table = f"{keyspace}.worker_locks"
    look = prepare(session, f"SELECT holder FROM {table} WHERE name = ?")
    take = prepare(session, f"INSERT INTO {table} (name, holder) VALUES (?, ?) IF NOT EXISTS USING TTL {ttl_s}")
    renew = prepare(session, f"UPDATE {table} USING TTL {ttl_s} SET holder = ? WHERE name = ? IF holder = ?")
    release = prepare(session, f"DELETE FROM {table} WHERE name = ? IF holder = ?")
    holder = f"floor/{os.getpid()}/{uuid4()}"
    signal.signal(signal.SIGTERM, leave)
    say("daemon started")
    while session.execute(look, (lease,)).one() is not None or not is_applied(session, take, (lease, holder)):
        time.sleep(LOOK_S)
    for parent, _, names in os.walk(folder):
        for name in names:
            os.unlink(os.path.join(parent, name))
    say("leader acquired")
    try:
        while True:
            time.sleep(renew_s)
            session.execute(renew, (holder, lease, holder))
    finally:
        session.execute(release, (lease, holder))


if __name__ == "__main__":
    main(*sys.argv[1:6], int(sys.argv[6]), float(sys.argv[7]))
