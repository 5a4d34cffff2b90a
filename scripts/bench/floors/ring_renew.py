"""Floor: one process that keeps many leases on a ring: takes them, then sends each one's renewal once a period, and
nothing else.

    ring_renew.py HOSTS DATA_CENTRE KEYSPACE COUNT RENEW_S GRAIN_S

The renewals are spread evenly over the period; those that fall within GRAIN_S go out together (0: each by itself).
"""

from __future__ import annotations

import sys
import time
from typing import Any
from uuid import uuid4

from cassandra.concurrent import execute_concurrent_with_args
from ring_driver import connect, prepare, say

TTL_S = 30
IN_FLIGHT = 32


class Answers:
    """Counts those that say no. One that did not come is not asked for again: the next turn renews the lease, too.

    Called on the driver's one thread; the loop only reads.
    """

    def __init__(self) -> None:
        self.refused = 0

    def came(self, rows: Any) -> None:
        if not rows[0][0]:
            self.refused += 1

    def failed(self, _exc: BaseException) -> None:
        pass


def main(hosts: str, data_centre: str, keyspace: str, count: int, renew_s: float, grain_s: float) -> None:
    session = connect(hosts, data_centre)
    table = f"{keyspace}.worker_locks"
    take = prepare(session, f"INSERT INTO {table} (name, holder) VALUES (?, ?) IF NOT EXISTS USING TTL {TTL_S}")
    renew = prepare(session, f"UPDATE {table} USING TTL {TTL_S} SET holder = ? WHERE name = ? IF holder = ?")
    holder, names = f"floor/0/{uuid4()}", [f"bench-floor-{index}" for index in range(count)]
    taken = execute_concurrent_with_args(session, take, [(name, holder) for name in names], concurrency=IN_FLIGHT)
    if not all(rows.one()[0] for _, rows in taken):
        sys.exit("a lease of the floor is held by somebody else: wait until it has run out")
    say("leader acquired")
    answers = Answers()
    # One shared turn for those that fall together; the turns are spread evenly over the period.
    turns = count if grain_s == 0 else max(1, round(renew_s / grain_s))
    groups = [names[turn * count // turns : (turn + 1) * count // turns] for turn in range(turns)]
    at, number = time.monotonic(), 0
    while answers.refused == 0:
        for name in groups[number % turns]:
            session.execute_async(renew, (holder, name, holder)).add_callbacks(answers.came, answers.failed)
        number += 1
        at += renew_s / turns
        time.sleep(max(0.0, at - time.monotonic()))
    sys.exit(f"{answers.refused} renewals of the floor were refused")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6]))
