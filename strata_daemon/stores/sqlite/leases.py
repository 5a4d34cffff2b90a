"""Leases on SQLite: a file of their own, so that bulk writers never starve renewals (design.md section 4).

One thread, `lease-io`, owns the connection; everything that waits for it goes into one transaction. Several processes
of one machine may share the file. The statements are in `lease_rows`, the file itself in `lease_file`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.runtime import Runtime, Thread, WakingQueue
from strata_daemon.leader.store import (
    Allowance,
    Answer,
    Deliver,
    Draw,
    LeaseRows,
    LeaseStatus,
    Note,
    Outcome,
    ReadLeases,
    ReadSignals,
    Reply,
    Request,
    Signal,
    SignalRows,
)
from strata_daemon.stores.sqlite.lease_file import identity, open_leases, read_boot_id, reading
from strata_daemon.stores.sqlite.lease_rows import KEPT_RELEASES, LeaseTables, read_statuses

BUSY_S = 0.5  # whoever waits longer for the lock answers "unknown" (design.md section 4)
IDLE_S = 60.0  # how long the thread sleeps when nobody asks


@dataclass(frozen=True, slots=True)
class _Batch:
    requests: Sequence[Request]
    deliver: Deliver


class SqliteLeaseStore:
    """A `LeaseStore` and `LeaseReader` on one file.

    `submit` and `list_leases` may be called by any thread; the connection and `_signals` belong to `lease-io`. The
    queue cannot grow without end: a term has one request open, and repeats it once in an attempt time-out.
    """

    def __init__(self, path: Path, runtime: Runtime, *, boot_id: str | None = None, read_only: bool = False) -> None:
        """Open or create the file. `boot_id`: for tests; `read_only`: no thread, no file created, no `submit`.

        Raises PreflightError: foreign, damaged or newer file, no right, network file system.
        """
        self._path = path
        self._runtime = runtime
        self._boot = boot_id if boot_id is not None else read_boot_id()
        self._closing = runtime.event()
        self._queue: WakingQueue[_Batch] = runtime.queue()
        self._signals: list[Signal] = []
        self._thread: Thread | None = None
        if read_only:
            self._check_readable()
            return
        self._database = open_leases(path, runtime)
        self._file = identity(path)
        self._database.busy_s = 0.0  # SQLite waits: nobody else wants the connection in the meantime
        with self._database.read() as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")
            self._tables = LeaseTables(connection, self._boot)
        self._thread = runtime.spawn("lease-io", self._run)

    def allowance(self) -> Allowance:
        return Allowance(0.0, 0.0)

    def submit(self, requests: Sequence[Request], deliver: Deliver) -> None:
        """Queue for `lease-io`. After `close` nothing is executed and nothing delivered."""
        if self._thread is None:
            raise StoreUnavailable(f"{self._path} was opened for reading only")
        kept = tuple(request for request in requests if not isinstance(request, Note))  # no history is kept here
        if kept and not self._closing.is_set():
            self._queue.put(_Batch(kept, deliver))

    def close(self, timeout_s: float) -> bool:
        """Let the thread finish what was submitted before; may be called again."""
        self._closing.set()
        self._queue.wake.set()
        return self._thread is None or self._thread.join(timeout_s)

    def list_leases(self) -> list[LeaseStatus]:
        """Every live lease, by name, on a connection of its own; none when there is no file yet."""
        try:
            with reading(self._path, BUSY_S) as connection:
                return [] if connection is None else read_statuses(connection, self._boot, self._runtime.now())
        except (sqlite3.Error, OSError, PreflightError) as exc:
            raise StoreUnavailable(f"the leases in {self._path} cannot be read: {exc}") from exc

    def _check_readable(self) -> None:
        try:
            with reading(self._path, BUSY_S):
                return
        except (sqlite3.Error, OSError) as exc:
            raise PreflightError(
                f"{self._path} cannot be read ({exc}): stop every daemon that uses it, then restore it or move it away."
            ) from exc

    # -- the thread

    def _run(self) -> None:
        try:
            while True:
                self._queue.wake.wait(IDLE_S)
                self._queue.wake.clear()
                is_last = self._closing.is_set()  # before the drain: what was submitted earlier is still executed
                batches = self._queue.drain()
                if batches or (is_last and self._signals):
                    self._turn(batches)
                if is_last:
                    return
        finally:
            self._database.close()

    def _turn(self, batches: Sequence[_Batch]) -> None:
        """Execute everything in one transaction, then deliver: nothing is told that is not committed."""
        requests: list[Request] = [*self._signals, *(each for batch in batches for each in batch.requests)]
        try:
            replies = self._transact(requests)
        except (StoreUnavailable, OSError) as exc:
            # Nobody repeats a signal, so it waits here; a release without one is seen at the next poll.
            self._signals = [each for each in requests if isinstance(each, Signal)][-KEPT_RELEASES:]
            replies = [_unknown(request, str(exc)) for request in requests]
        else:
            self._signals = []
        at = len(requests) - sum(len(batch.requests) for batch in batches)
        for batch in batches:
            own = [reply for reply in replies[at : at + len(batch.requests)] if reply is not None]
            at += len(batch.requests)
            if own:
                batch.deliver(own)

    def _transact(self, requests: Sequence[Request]) -> list[Reply | None]:
        """All or nothing. Raises StoreUnavailable, also when the lock did not come within half a second."""
        if identity(self._path) != self._file:
            raise StoreUnavailable(f"{self._path} was replaced under us: restart this daemon")
        if all(isinstance(each, ReadLeases | ReadSignals) for each in requests):
            with self._database.read():
                return self._tables.execute(requests, self._runtime.now())
        # A token must survive a power cut; a renewal need not, since its boot does not survive either.
        with self._database.write(is_durable=any(isinstance(each, Draw) for each in requests)):
            now = self._runtime.now()  # after the wait for the lock, so that no TTL is shorter than asked
            replies = self._tables.execute(requests, now)
            self._tables.purge(now)
        return replies


def _unknown(request: Request, detail: str) -> Reply | None:
    match request:
        case Signal() | Note():
            return None
        case ReadLeases():
            return LeaseRows(request, None)
        case ReadSignals():
            return SignalRows(request, None)
        case _:
            return Answer(request, Outcome.UNKNOWN, detail=detail)
