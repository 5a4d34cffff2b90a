"""Leases, tokens and signals in memory: for tests, for simulation, and as the model that every other store is held to.

`MemoryLeases` is the shared truth (the "ring"), `MemoryLeaseStore` one client of it. No thread lives here: a request
is executed on the thread that submits it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from strata_daemon.base.runtime import Runtime
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
    Released,
    Renew,
    Reply,
    Request,
    Signal,
    SignalRows,
)

KEPT_RELEASES = 2048  # a signals row: more than one stop of 1,024 shards leaves (leader/store.py, Signal)


@dataclass(frozen=True, slots=True)
class _Row:
    """As Cassandra keeps it: an insert writes a marker and the holder, a renew the holder alone (facts I.0.3).

    Instants None: no end. While only the marker lives, the row has no holder and refuses every insert.
    """

    holder: str | None
    marker_until: float | None
    holder_until: float | None

    def at(self, now: float) -> LeaseRow | None:
        """What a read sees; None: no row."""
        if self.holder is not None and (self.holder_until is None or self.holder_until > now):
            return LeaseRow(self.holder, None if self.holder_until is None else self.holder_until - now)
        if self.marker_until is None or self.marker_until > now:
            return LeaseRow(None, None)  # a TTL is read from the holder, and there is none
        return None


@dataclass(frozen=True, slots=True)
class _Token:
    fence: int
    holder: str
    drawn_at: datetime | None


@dataclass(slots=True)
class _SignalRow:
    seq: int = 0
    releases: deque[Released] = field(default_factory=lambda: deque(maxlen=KEPT_RELEASES))


class MemoryLeases:
    """The rows, with expiry by the clock of `runtime`. Thread-safe; several stores may share one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()  # guards _rows, _tokens, _signals
        self._rows: dict[str, _Row] = {}
        self._tokens: dict[str, _Token] = {}
        self._signals: dict[str, _SignalRow] = {}

    def execute(self, request: Request, *, skew_s: float = 0.0) -> Reply | None:
        """Execute one request now; None for a `Signal` or a `Note`. `skew_s`: how far that node's clock is ahead."""
        now = self._runtime.now() + skew_s
        with self._lock:
            match request:
                case Insert():
                    return self._insert_locked(request, now)
                case Renew():
                    return self._renew_locked(request, now)
                case Release():
                    return self._release_locked(request, now)
                case Draw():
                    return self._draw_locked(request)
                case Signal():
                    self._signal_locked(request)
                    return None
                case Note():
                    return None  # no history is kept here
                case ReadLeases():
                    seen = ((lease, self._at_locked(lease, now)) for lease in request.leases)
                    return LeaseRows(request, {lease: row for lease, row in seen if row is not None})
                case ReadSignals():
                    return self._signals_locked(request)

    def put_row(self, lease: str, holder: str | None, ttl_s: float | None) -> None:
        """Write a row without any condition, as a foreign hand would; `ttl_s` None: a row that never ends by itself."""
        until = None if ttl_s is None else self._runtime.now() + ttl_s
        with self._lock:
            self._rows[lease] = _Row(holder, until, until)

    def list_leases(self) -> list[LeaseStatus]:
        """Every live lease, by name."""
        now = self._runtime.now()
        statuses = []
        with self._lock:
            for lease in sorted(self._rows):
                row, token = self._at_locked(lease, now), self._tokens.get(lease)
                if row is None:
                    continue
                is_drawn = token is not None and token.holder == row.holder
                fence, drawn_at = (token.fence, token.drawn_at) if token is not None and is_drawn else (None, None)
                statuses.append(LeaseStatus(lease, row.holder, fence, drawn_at, row.remaining_s))
        return statuses

    def _at_locked(self, lease: str, now: float) -> LeaseRow | None:
        row = self._rows.get(lease)
        return None if row is None else row.at(now)

    def _insert_locked(self, request: Insert, now: float) -> Answer:
        row = self._at_locked(request.lease, now)
        if row is not None:
            return Answer(request, Outcome.REFUSED, row.holder)
        until = now + request.ttl_s
        self._rows[request.lease] = _Row(request.holder, until, until)
        return Answer(request, Outcome.APPLIED)

    def _renew_locked(self, request: Renew, now: float) -> Answer:
        row = self._at_locked(request.lease, now)
        if row is None or row.holder != request.holder:
            return Answer(request, Outcome.REFUSED, None if row is None else row.holder)
        marker_until = self._rows[request.lease].marker_until
        self._rows[request.lease] = _Row(request.holder, marker_until, now + request.ttl_s)
        return Answer(request, Outcome.APPLIED)

    def _release_locked(self, request: Release, now: float) -> Answer:
        row = self._at_locked(request.lease, now)
        if row is None or row.holder != request.holder:
            return Answer(request, Outcome.REFUSED, None if row is None else row.holder)
        del self._rows[request.lease]
        return Answer(request, Outcome.APPLIED)

    def _draw_locked(self, request: Draw) -> Answer:
        token = self._tokens.get(request.lease)
        stands = None if token is None else token.fence
        if stands != request.seen:
            return Answer(request, Outcome.REFUSED, fence=stands)
        fence = (stands or 0) + 1
        self._tokens[request.lease] = _Token(fence, request.holder, request.drawn_at)
        return Answer(request, Outcome.APPLIED, fence=fence)

    def _signal_locked(self, request: Signal) -> None:
        row = self._signals.setdefault(request.node, _SignalRow())
        row.seq += 1
        row.releases.append(Released(row.seq, request.lease, request.surplus))

    def _signals_locked(self, request: ReadSignals) -> SignalRows:
        rows: dict[str, Sequence[Released]] = {}
        for node, row in self._signals.items():
            seen = request.seen.get(node)
            if seen is None or seen != row.seq:
                rows[node] = [each for each in row.releases if seen is None or each.seq > seen]
        return SignalRows(request, rows)


class MemoryLeaseStore:
    """One client of `MemoryLeases`: a `LeaseStore` and a `LeaseReader`. Delivers inside `submit`."""

    def __init__(self, leases: MemoryLeases, runtime: Runtime) -> None:
        self._leases = leases
        self._closed = runtime.event()

    def allowance(self) -> Allowance:
        return Allowance(0.0, 0.0)

    def submit(self, requests: Sequence[Request], deliver: Deliver) -> None:
        """Execute all, deliver all. After `close` nothing is executed and nothing delivered."""
        if self._closed.is_set():
            return
        replies = [reply for request in requests if (reply := self._leases.execute(request)) is not None]
        if replies:
            deliver(replies)

    def close(self, timeout_s: float) -> bool:
        """Nothing can be left: each `submit` has ended when it returned. `timeout_s` is not used."""
        self._closed.set()
        return True

    def list_leases(self) -> list[LeaseStatus]:
        """Every live lease, by name; never unavailable."""
        return self._leases.list_leases()
