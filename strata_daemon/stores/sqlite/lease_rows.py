"""The statements of `leases.db`: conditional writes as leader/store.py says, inside a transaction of the caller's.

Used by the one I/O thread of a store. Instants are CLOCK_BOOTTIME seconds, which mean something on one boot (and in one
time namespace) only: so each row bears the boot that it was written in.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from strata_daemon.leader.store import (
    Answer,
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
from strata_daemon.stores.sqlite.database import Schema

KEPT_RELEASES = 2048  # leader/store.py, Signal
PURGE_EVERY_S = 60.0
PURGED_AT_ONCE = 256  # so that a purge never makes a renewal wait for long

SCHEMA = Schema(
    application_id=0x53444C31,  # "SDL1"
    version=1,
    statements=(
        # `expires_at` NULL: a row without end. `ttl_s` is how long a row of another boot must stand still.
        "CREATE TABLE leases (lease TEXT PRIMARY KEY, holder TEXT, ttl_s INTEGER, expires_at REAL, boot TEXT NOT NULL)"
        " WITHOUT ROWID",
        "CREATE TABLE tokens (lease TEXT PRIMARY KEY, fence INTEGER NOT NULL, holder TEXT, drawn_at TEXT)"
        " WITHOUT ROWID",
        "CREATE TABLE signals (node TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE TABLE releases (node TEXT NOT NULL, seq INTEGER NOT NULL, lease TEXT NOT NULL,"
        " surplus INTEGER NOT NULL, PRIMARY KEY (node, seq)) WITHOUT ROWID",
    ),
)

_INSERT = "INSERT INTO leases (lease, holder, ttl_s, expires_at, boot) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_REPLACE = "UPDATE leases SET holder = ?, ttl_s = ?, expires_at = ?, boot = ? WHERE lease = ?"
# A row without end keeps none: its permanent marker would refuse everybody for ever (design.md section 4).
_RENEW = (
    "UPDATE leases SET ttl_s = ?, expires_at = iif(expires_at IS NULL, NULL, ?), boot = ?"
    " WHERE lease = ? AND holder = ?"
)
_IS_LIVE = " AND (expires_at IS NULL OR (boot = ? AND expires_at > ?))"
_DELETE = "DELETE FROM leases WHERE lease = ? AND holder = ?"
_SELECT = "SELECT holder, ttl_s, expires_at, boot FROM leases WHERE lease = ?"
_NEXT_SEQ = "INSERT INTO signals (node, seq) VALUES (?, 1) ON CONFLICT (node) DO UPDATE SET seq = seq + 1 RETURNING seq"
_STATUS = (
    "SELECT leases.lease, leases.holder, ttl_s, expires_at, boot, fence, drawn_at FROM leases"
    " LEFT JOIN tokens ON tokens.lease = leases.lease AND tokens.holder = leases.holder ORDER BY leases.lease"
)

Fields = tuple[str | None, int | None, float | None, str]


@dataclass(frozen=True, slots=True)
class _Still:
    """A row of another boot as it looked when we first saw it like that, and when that was on our clock."""

    row: Fields
    since: float


class LeaseTables:
    """Executes requests on one connection. One owner: the thread that owns the transaction.

    A row of another boot counts as held until it has stood unchanged for its TTL on our clock: its instants say
    nothing here, and the clone of a machine may still renew it.
    """

    def __init__(self, connection: sqlite3.Connection, boot: str) -> None:
        self._db = connection
        self._boot = boot
        self._still: dict[str, _Still] = {}
        self._purge_at = 0.0

    def execute(self, requests: Sequence[Request], now: float) -> list[Reply | None]:
        """Execute all in their order; one reply each, None for a `Signal`. Raises sqlite3.Error."""
        heads: dict[str, int] = {}
        replies = [self._execute(request, now, heads) for request in requests]
        for node, seq in heads.items():
            self._db.execute("DELETE FROM releases WHERE node = ? AND seq <= ?", (node, seq - KEPT_RELEASES))
        return replies

    def purge(self, now: float) -> None:
        """Delete rows whose end has passed, a bounded number, at most once a minute. Raises sqlite3.Error."""
        if now < self._purge_at:
            return
        self._purge_at = now + PURGE_EVERY_S
        ended = self._db.execute(
            "SELECT lease FROM leases WHERE boot = ? AND expires_at <= ? LIMIT ?", (self._boot, now, PURGED_AT_ONCE)
        ).fetchall()
        foreign = self._db.execute(
            "SELECT lease FROM leases WHERE boot != ? AND expires_at NOT NULL LIMIT ?", (self._boot, PURGED_AT_ONCE)
        ).fetchall()
        ended += [(lease,) for (lease,) in foreign if self._row(lease, now) is None]
        self._db.executemany("DELETE FROM leases WHERE lease = ?", ended)
        # Only what is gone is forgotten: to forget a row that stands would make its lease wait for another whole TTL.
        if self._still:
            left = {lease for (lease,) in self._db.execute("SELECT lease FROM leases WHERE boot != ?", (self._boot,))}
            self._still = {lease: still for lease, still in self._still.items() if lease in left}

    def _execute(self, request: Request, now: float, heads: dict[str, int]) -> Reply | None:
        match request:
            case Insert():
                return self._insert(request, now)
            case Renew():
                return self._renew(request, now)
            case Release():
                return self._release(request, now)
            case Draw():
                return self._draw(request)
            case Note():
                return None  # no history is kept here
            case Signal():
                ((seq,),) = self._db.execute(_NEXT_SEQ, (request.node,)).fetchall()
                self._db.execute(
                    "INSERT INTO releases (node, seq, lease, surplus) VALUES (?, ?, ?, ?)",
                    (request.node, seq, request.lease, request.surplus),
                )
                heads[request.node] = seq
                return None
            case ReadLeases():
                seen = ((lease, self._row(lease, now)) for lease in request.leases)
                return LeaseRows(request, {lease: row for lease, row in seen if row is not None})
            case ReadSignals():
                return self._signals(request)

    def _insert(self, request: Insert, now: float) -> Answer:
        values = (request.holder, request.ttl_s, now + request.ttl_s, self._boot)
        if not self._db.execute(_INSERT, (request.lease, *values)).rowcount:
            row = self._row(request.lease, now)
            if row is not None:
                return Answer(request, Outcome.REFUSED, row.holder)
            self._db.execute(_REPLACE, (*values, request.lease))
            self._still.pop(request.lease, None)
        return Answer(request, Outcome.APPLIED)

    def _renew(self, request: Renew, now: float) -> Answer:
        values = (request.ttl_s, now + request.ttl_s, self._boot, request.lease, request.holder)
        if self._db.execute(_RENEW + _IS_LIVE, (*values, self._boot, now)).rowcount:
            return Answer(request, Outcome.APPLIED)
        row = self._row(request.lease, now)
        if row is None or row.holder != request.holder:
            return Answer(request, Outcome.REFUSED, None if row is None else row.holder)
        self._db.execute(_RENEW, values)
        return Answer(request, Outcome.APPLIED)

    def _release(self, request: Release, now: float) -> Answer:
        row = self._row(request.lease, now)
        if row is None or row.holder != request.holder:
            return Answer(request, Outcome.REFUSED, None if row is None else row.holder)
        self._db.execute(_DELETE, (request.lease, request.holder))
        return Answer(request, Outcome.APPLIED)

    def _draw(self, request: Draw) -> Answer:
        found = self._db.execute("SELECT fence FROM tokens WHERE lease = ?", (request.lease,)).fetchone()
        stands = None if found is None else int(found[0])
        if stands != request.seen:
            return Answer(request, Outcome.REFUSED, fence=stands)
        fence = (stands or 0) + 1
        drawn_at = None if request.drawn_at is None else request.drawn_at.isoformat()
        self._db.execute(
            "INSERT OR REPLACE INTO tokens (lease, fence, holder, drawn_at) VALUES (?, ?, ?, ?)",
            (request.lease, fence, request.holder, drawn_at),
        )
        return Answer(request, Outcome.APPLIED, fence=fence)

    def _signals(self, request: ReadSignals) -> SignalRows:
        rows: dict[str, Sequence[Released]] = {}
        for node, head in self._db.execute("SELECT node, seq FROM signals").fetchall():
            seen = request.seen.get(node)
            if seen == head:
                continue
            found = self._db.execute(
                "SELECT seq, lease, surplus FROM releases WHERE node = ? AND seq > ? ORDER BY seq", (node, seen or 0)
            )
            rows[node] = [Released(seq, lease, bool(surplus)) for seq, lease, surplus in found]
        return SignalRows(request, rows)

    def _row(self, lease: str, now: float) -> LeaseRow | None:
        """The live row of a lease; None when there is none."""
        row: Fields | None = self._db.execute(_SELECT, (lease,)).fetchone()
        if row is None:
            self._still.pop(lease, None)
            return None
        remaining_s = self._remaining(lease, row, now)
        return None if remaining_s == 0.0 else LeaseRow(row[0], remaining_s)

    def _remaining(self, lease: str, row: Fields, now: float) -> float | None:
        """Seconds until the row is free, 0 when it is; None: never by itself."""
        _, ttl_s, expires_at, boot = row
        if expires_at is None:
            return None
        if boot == self._boot:
            return max(0.0, expires_at - now)
        still = self._still.get(lease)
        if still is None or still.row != row:
            still = self._still[lease] = _Still(row, now)
        return max(0.0, still.since + (ttl_s or 0) - now)


def read_statuses(connection: sqlite3.Connection, boot: str, now: float) -> list[LeaseStatus]:
    """Every live lease, by name. A row of another boot shows its whole TTL: more cannot be known from one look."""
    statuses = []
    for lease, holder, ttl_s, expires_at, row_boot, fence, drawn_at in connection.execute(_STATUS):
        remaining_s = None
        if expires_at is not None:
            remaining_s = expires_at - now if row_boot == boot else float(ttl_s)
            if remaining_s <= 0:
                continue
        at = None if drawn_at is None else datetime.fromisoformat(drawn_at)
        statuses.append(LeaseStatus(lease, holder, fence, at, remaining_s))
    return statuses
