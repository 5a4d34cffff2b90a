"""A process of its own that races on one SQLite file: `python sqlite_lease_rival.py FILE NAME ROUNDS insert|draw`.

Prints `ready`, waits for a line, then tries to insert `lease-0` ... and prints the outcome of each; or draws ROUNDS
tokens of one lease and prints the numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.leader.store import Answer, Draw, Insert, Outcome, Request
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore


class Rival:
    """One store, asked one request at a time."""

    def __init__(self, path: Path) -> None:
        self.runtime = RealRuntime()
        self.store = SqliteLeaseStore(path, self.runtime)
        self._replies = self.runtime.queue()

    def ask(self, request: Request) -> Answer:
        self.store.submit([request], self._replies.put_all)
        assert self._replies.wake.wait(5.0), "no answer"
        self._replies.wake.clear()
        (reply,) = self._replies.drain()
        assert isinstance(reply, Answer)
        return reply

    def insert(self, name: str, rounds: int) -> None:
        for i in range(rounds):
            answer = self.ask(Insert(f"lease-{i}", name, 1, 60))
            print(answer.request.lease, answer.outcome.value, answer.holder or "-", flush=True)

    def draw(self, name: str, rounds: int) -> None:
        """As a term draws: a refusal brings the number to go on from."""
        drawn, seen, try_no = 0, None, 0
        while drawn < rounds:
            try_no += 1
            answer = self.ask(Draw("gc", name, try_no, seen))
            assert answer.outcome is not Outcome.UNKNOWN, answer.detail
            seen = answer.fence
            if answer.outcome is Outcome.APPLIED:
                drawn += 1
                print(answer.fence, flush=True)


def main(path: str, name: str, rounds: int, what: str) -> None:
    rival = Rival(Path(path))
    print("ready", flush=True)
    sys.stdin.readline()
    (rival.insert if what == "insert" else rival.draw)(name, rounds)
    assert rival.store.close(5.0), "the thread is left running"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
