"""A process of its own that races for leases on one SQLite file: `python sqlite_lease_rival.py FILE NAME ROUNDS`.

Prints `ready`, waits for a line, then tries to insert `lease-0` ... and prints the outcome of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.leader.store import Answer, Insert, Reply
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore


def main(path: str, name: str, rounds: int) -> None:
    runtime = RealRuntime()
    store = SqliteLeaseStore(Path(path), runtime)
    replies = runtime.queue()
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(rounds):
        store.submit([Insert(f"lease-{i}", name, 1, 60)], replies.put_all)
        assert replies.wake.wait(5.0), "no answer"
        replies.wake.clear()
        for reply in replies.drain():
            print(line(reply), flush=True)
    assert store.close(5.0), "the thread is left running"


def line(reply: Reply) -> str:
    assert isinstance(reply, Answer)
    return f"{reply.request.lease} {reply.outcome.value} {reply.holder or '-'}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
