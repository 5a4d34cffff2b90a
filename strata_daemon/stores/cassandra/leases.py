"""Leases in `worker_locks`, tokens and signals in our own keyspace (design.md section 4, strata-keyspace.md 1.4).

Every request is asynchronous: `submit` is the timer thread's and never waits, answers arrive on the driver's loop
thread and are handed over at once. Nothing is repeated here; the rules of a term repeat, and a repeat goes to another
node. No table is scanned but for people.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC
from functools import partial
from typing import Any

from strata_daemon.leader.store import (
    Allowance,
    Answer,
    Deliver,
    Draw,
    Insert,
    LeaseRow,
    LeaseRows,
    LeaseStatus,
    Note,
    Outcome,
    ReadLeases,
    ReadSignals,
    Release,
    Renew,
    Request,
    Signal,
    Try,
)
from strata_daemon.stores.cassandra.bulk import Row
from strata_daemon.stores.cassandra.errors import in_words
from strata_daemon.stores.cassandra.history import History
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.sending import send_to
from strata_daemon.stores.cassandra.signals import Signals
from strata_daemon.stores.cassandra.statements import (
    DRAW_TOKEN,
    INSERT_LEASE,
    NOTE_BEGIN,
    NOTE_END,
    READ_CLOCK,
    READ_LEASES,
    READ_RELEASES,
    READ_SIGNALS,
    READ_TOKENS,
    RELEASE_LEASE,
    RENEW_LEASE,
    SCAN_LEASES,
    WRITE_SIGNAL,
    Statement,
)

ROUNDING_S = 1.0  # a TTL ends on a whole second of the coordinator's clock (cassandra-facts.md II 1.1)
NAMES_A_READ = 100
PROBED = "strata-daemon-probe"  # no lease has this name: a read of it asks whether a quorum answers
USED = (
    INSERT_LEASE,
    RENEW_LEASE,
    RELEASE_LEASE,
    READ_LEASES,
    DRAW_TOKEN,
    WRITE_SIGNAL,
    READ_SIGNALS,
    READ_RELEASES,
    READ_CLOCK,
    NOTE_BEGIN,
    NOTE_END,
)


class CassandraLeaseStore:
    """A `LeaseStore` and `LeaseReader`. `skew_s` is what the ring's clocks cost; it may change at any time.

    `submit` belongs to the timer thread. What crosses threads is guarded by `_lock`.
    """

    def __init__(self, ring: Ring, skew_s: float) -> None:
        """Prepares every statement now, since `submit` may not wait. Raises StoreUnavailable."""
        for statement in USED:
            ring.prepared(statement)
        self._ring = ring
        self._allowance = Allowance(ROUNDING_S, skew_s)
        self._lock = threading.Lock()  # guards _asked and _is_closed
        # The nodes that were asked for a lease and have not answered: a repeat goes past them.
        self._asked: defaultdict[str, set[Any]] = defaultdict(set)
        self._is_closed = False
        self._signals = Signals(ring)
        self._history = History(ring)

    def allowance(self) -> Allowance:
        return self._allowance

    def set_skew(self, skew_s: float) -> None:
        """Called by whoever measures; one attribute, replaced as a whole."""
        self._allowance = Allowance(ROUNDING_S, skew_s)

    def submit(self, requests: Sequence[Request], deliver: Deliver) -> None:
        with self._lock:
            if self._is_closed:
                return
        for request in requests:
            match request:
                case ReadLeases():
                    self._read(request, deliver)
                case ReadSignals():
                    self._signals.read(request, deliver)
                case Signal():
                    self._signals.add(request)
                case Note():
                    self._history.add(request)
                case _:
                    self._try(request, deliver)
        self._signals.flush()

    def close(self, timeout_s: float) -> bool:
        """Whether no signal or note is on its way any more. Answers to what is still open are delivered until the ring
        ends."""
        with self._lock:
            self._is_closed = True
        self._signals.flush()
        until = self._ring.runtime.now() + timeout_s
        is_told = self._signals.wait(timeout_s)
        return self._history.wait(max(0.0, until - self._ring.runtime.now())) and is_told

    # -- conditional statements

    def _try(self, request: Try, deliver: Deliver) -> None:
        statement, values = _bound(request)
        settings = self._ring.settings
        keyspace = settings.own_keyspace if isinstance(request, Draw) else settings.keyspace
        with self._lock:
            silent = tuple(self._asked[request.lease])
        for host in silent:
            self._ring.hosts.failed(host)
        host = self._ring.hosts.for_key(keyspace, request.lease, avoid=silent)
        if host is None:
            deliver([Answer(request, Outcome.UNKNOWN, detail="no node of the ring is known")])
            return
        with self._lock:
            self._asked[request.lease].add(host)
        self._ring.budget.lease_asked()
        send_to(
            self._ring,
            statement,
            values,
            host,
            partial(self._answered, request, host, deliver),
            partial(self._failed, request, host, deliver),
        )

    def _answered(self, request: Try, host: Any, deliver: Deliver, rows: Sequence[Row]) -> None:
        with self._lock:
            self._asked.pop(request.lease, None)
        self._ring.hosts.answered(host)
        try:
            deliver([_answer(request, rows)])
        finally:
            self._ring.budget.lease_answered()

    def _failed(self, request: Try, host: Any, deliver: Deliver, exc: BaseException) -> None:
        """Whatever the error: that the statement was not executed is never certain enough to matter, so it is unknown.
        The node stays among those to be passed by, until some node has answered."""
        self._ring.hosts.failed(host)
        try:
            deliver([Answer(request, Outcome.UNKNOWN, detail=in_words(exc))])
        finally:
            self._ring.budget.lease_answered()

    # -- hints

    def _read(self, request: ReadLeases, deliver: Deliver) -> None:
        host = self._ring.hosts.any()
        if host is None:
            deliver([LeaseRows(request, None)])
            return

        def on_rows(rows: Sequence[Row]) -> None:
            deliver([LeaseRows(request, {name: _lease_row(holder, ttl_s) for name, holder, ttl_s in rows})])

        def on_error(_exc: BaseException) -> None:
            self._ring.hosts.failed(host)
            deliver([LeaseRows(request, None)])

        send_to(self._ring, READ_LEASES, (list(request.leases),), host, on_rows, on_error)

    # -- for people

    def probe(self) -> None:
        """Whether a quorum answers for the lease table. Raises StoreUnavailable."""
        self._ring.read(READ_LEASES, ([PROBED],))

    def list_leases(self) -> list[LeaseStatus]:
        """A scan, 16 us a name that is or was there (cassandra-facts.md I.9): for people, never for a decision."""
        rows = sorted(self._ring.read(SCAN_LEASES))
        names = [name for name, _, _ in rows]
        reads = [
            self._ring.bind(READ_TOKENS, (names[start : start + NAMES_A_READ],))
            for start in range(0, len(names), NAMES_A_READ)
        ]
        tokens = {row[0]: row[1:] for page in self._ring.gather(reads) for row in page}
        return [_status(name, holder, ttl_s, tokens.get(name)) for name, holder, ttl_s in rows]


def _bound(request: Try) -> tuple[Statement, Sequence[Any]]:
    match request:
        case Insert():
            return INSERT_LEASE, (request.lease, request.holder, _ttl(request.ttl_s))
        case Renew():
            return RENEW_LEASE, (_ttl(request.ttl_s), request.holder, request.lease, request.holder)
        case Release():
            return RELEASE_LEASE, (request.lease, request.holder)
        case Draw():
            drawn_at = None if request.drawn_at is None else request.drawn_at.astimezone(UTC)
            fence = 1 if request.seen is None else request.seen + 1
            return DRAW_TOKEN, (fence, request.holder, drawn_at, request.lease, request.seen)


def _ttl(ttl_s: int) -> int:
    """0 or null would make a lease that never ends (cassandra-facts.md II 1.1)."""
    if ttl_s < 1:
        raise ValueError(f"a lease of {ttl_s} s would never end")
    return ttl_s


def _answer(request: Try, rows: Sequence[Row]) -> Answer:
    """By position: the first column is `[applied]`; a refusal without a row has that column alone (facts I.3)."""
    row = rows[0] if rows else (False,)
    if row[0]:
        drawn = (1 if request.seen is None else request.seen + 1) if isinstance(request, Draw) else None
        return Answer(request, Outcome.APPLIED, fence=drawn)
    told = row[-1] if len(row) > 1 else None
    if isinstance(request, Draw):
        return Answer(request, Outcome.REFUSED, fence=told)
    return Answer(request, Outcome.REFUSED, holder=told)


def _lease_row(holder: str | None, ttl_s: int | None) -> LeaseRow:
    return LeaseRow(holder, None if ttl_s is None else float(ttl_s))


def _status(name: str, holder: str | None, ttl_s: int | None, token: Row | None) -> LeaseStatus:
    is_drawn = token is not None and holder is not None and token[1] == holder
    drawn_at = token[2].replace(tzinfo=UTC) if is_drawn and token is not None and token[2] is not None else None
    remaining_s = None if ttl_s is None else float(ttl_s)
    return LeaseStatus(name, holder, token[0] if is_drawn and token is not None else None, drawn_at, remaining_s)
