"""The gc queue in SQLite. Entries whose deletion failed stand in a table of their own, out of the reader's way.

An oid may hold anything that somebody wrote: text that is not UTF-8 arrives with surrogate escapes, a blob likewise.
The keys of such rows are bound as the bytes they were.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

from strata_daemon.ports.gc_queue import GCEntry, QueueDepth, SetAside
from strata_daemon.stores.sqlite.database import Database

SET_ASIDE_MAX = 100_000  # a region; what is over stays in the queue
FEW_SHARDS = 64  # up to here, walking the shards' rows beats walking all that is due

COLUMNS = "region, shard_id, enqueued_at, oid, cluster, pool, namespace"
OF_SHARD = f"SELECT {COLUMNS} FROM gc_entries WHERE region = ?1 AND shard_id = ?2 AND enqueued_at <= ?3"
ORDER = "ORDER BY enqueued_at, oid LIMIT ?4"
# SQLite keeps anything in any column. Numbers sort before all else, so an instant of None has no number behind it.
FIRST_OF_NEXT = """SELECT shard_id, CASE WHEN typeof(enqueued_at) IN ('integer', 'real')
        THEN CAST(enqueued_at AS INTEGER) END
    FROM gc_entries WHERE region = ? AND shard_id > ? ORDER BY shard_id, enqueued_at LIMIT 1"""
KEY = "region = ?1 AND shard_id = ?2 AND enqueued_at = ?3 AND oid = ?4"
# Text that is not UTF-8 is bound as bytes, and meets both the text and the blob of these bytes.
ODD_KEY = "region = ?1 AND shard_id = ?2 AND enqueued_at = ?3 AND oid IN (CAST(?4 AS TEXT), ?4)"
OID = itemgetter(3)


class BlobOid(str):
    """An oid that was stored as a blob. Reads as text; sorts behind all text in the table."""

    __slots__ = ()


class SqliteGCQueue:
    def __init__(self, database: Database) -> None:
        self._database = database

    def busy_shards(self, region: str, shards: Sequence[int], before_ms: int) -> list[int]:
        """Skips from shard to shard through the index: costs a step for each shard that has entries."""
        wanted = set(shards)
        with self._database.read() as connection:
            firsts = _firsts(connection, region)
            return [shard for shard, oldest_ms in firsts if oldest_ms <= before_ms and shard in wanted]

    def pages(self, region: str, shards: Sequence[int], before_ms: int, limit: int) -> Iterator[Sequence[GCEntry]]:
        after: GCEntry | None = None
        while page := self._read(region, shards, before_ms, limit, after):
            yield page
            after = page[-1]

    def due_sweep(self, region: str, shards: Sequence[int]) -> list[int]:
        """None: every read begins at the oldest entry."""
        return []

    def forget(self, region: str, shards: Sequence[int]) -> None:
        """Nothing is remembered."""

    def recount(self, region: str, shards: Sequence[int]) -> None:
        """`depth` counts."""

    def mend(self, region: str, before_ms: int) -> Iterator[None]:
        """There are no mirrors."""
        return iter(())

    def _read(
        self, region: str, shards: Sequence[int], before_ms: int, limit: int, after: GCEntry | None
    ) -> list[GCEntry]:
        with self._database.read() as connection:
            try:
                with _strict_text(connection):
                    rows = _page(connection, region, shards, before_ms, limit, after)
            except sqlite3.OperationalError:  # a text that is not UTF-8, or an error that comes again
                rows = _page(connection, region, shards, before_ms, limit, after)
        if bytes in map(type, map(OID, rows)):
            return list(map(_entry, rows))
        return list(map(GCEntry._make, rows))

    def ack(self, entries: Sequence[GCEntry]) -> None:
        """An ack that the machine's end takes back is harmless: the chunk is found absent then, so NORMAL will do."""
        with self._database.write(is_durable=False) as connection:
            _delete(connection, "gc_entries", entries)
            if connection.execute("SELECT EXISTS (SELECT 1 FROM gc_set_aside)").fetchone()[0]:
                _delete(connection, "gc_set_aside", entries)

    def begin_ack(self, entries: Sequence[GCEntry]) -> Callable[[], None]:
        self.ack(entries)
        return lambda: None

    def set_aside(self, entries: Sequence[SetAside]) -> int:
        with self._database.write(is_durable=False) as connection:
            return _set_aside_all(connection, entries)

    def due_set_aside(self, region: str, shards: Sequence[int], now_ms: int, limit: int) -> list[SetAside]:
        # The unary plus keeps SQLite from the index by retry_at.
        own = "+" if len(shards) <= FEW_SHARDS else ""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS}, reason, tries, retry_at FROM gc_set_aside WHERE region = ? AND {own}retry_at <= ?"
                f" AND shard_id IN (SELECT value FROM json_each(?)) ORDER BY {own}retry_at LIMIT ?",
                (region, now_ms, json.dumps(list(shards)), limit),
            ).fetchall()
        return [SetAside(_entry(row[:7]), *row[7:]) for row in rows]

    def enqueue(self, entries: Sequence[GCEntry]) -> None:
        with self._database.write() as connection:
            insert(connection, entries)

    def depth(self, region: str) -> QueueDepth:
        with self._database.read() as connection:
            (entries,) = connection.execute("SELECT count(*) FROM gc_entries WHERE region = ?", (region,)).fetchone()
            aside = dict(
                connection.execute(
                    "SELECT reason, count(*) FROM gc_set_aside WHERE region = ? GROUP BY reason", (region,)
                ).fetchall()
            )
            oldest = min((oldest_ms for _, oldest_ms in _firsts(connection, region)), default=None)
        return QueueDepth(entries, oldest, aside)


def insert(connection: sqlite3.Connection, entries: Iterable[GCEntry]) -> None:
    """Add entries inside a transaction; one that is there already, or set aside, stays as it is."""
    plain, odd = _split(list(entries))
    connection.executemany(_insertion("?4"), plain)
    for entry in odd:
        place = "?4" if isinstance(entry.oid, BlobOid) else "CAST(?4 AS TEXT)"
        connection.execute(_insertion(place), (*entry[:3], _raw(entry.oid), *entry[4:]))


def _insertion(oid: str) -> str:
    return f"""INSERT OR IGNORE INTO gc_entries ({COLUMNS})
        SELECT ?1, ?2, ?3, {oid}, ?5, ?6, ?7 WHERE NOT EXISTS (
            SELECT 1 FROM gc_set_aside WHERE region = ?1 AND shard_id = ?2 AND enqueued_at = ?3 AND oid = {oid})"""


def _set_aside_all(connection: sqlite3.Connection, entries: Sequence[SetAside]) -> int:
    """How many were moved or renewed; a region that is full takes no more."""
    room: dict[str, int] = {}
    kept = 0
    for each in entries:
        region = each.entry.region
        if region not in room:
            (count,) = connection.execute("SELECT count(*) FROM gc_set_aside WHERE region = ?", (region,)).fetchone()
            room[region] = SET_ASIDE_MAX - count
        where, key = _key(each.entry)
        values = (*key, each.reason, each.tries, each.retry_at_ms)
        renewed = connection.execute(
            f"UPDATE gc_set_aside SET reason = ?5, tries = ?6, retry_at = ?7 WHERE {where}",
            values,
        )
        if renewed.rowcount:
            kept += 1
        elif room[region] > 0:
            moved = connection.execute(
                f"INSERT INTO gc_set_aside SELECT {COLUMNS}, ?5, ?6, ?7 FROM gc_entries WHERE {where}",
                values,
            )
            connection.execute(f"DELETE FROM gc_entries WHERE {where}", key)
            room[region] -= moved.rowcount
            kept += moved.rowcount
    return kept


def _firsts(connection: sqlite3.Connection, region: str) -> Iterator[tuple[int, int]]:
    """(shard, its oldest enqueued_at) for each shard that has entries: one step through the index a shard."""
    shard = -1
    while (row := connection.execute(FIRST_OF_NEXT, (region, shard)).fetchone()) is not None:
        shard = row[0]
        if row[1] is not None:
            yield shard, row[1]


@contextmanager
def _strict_text(connection: sqlite3.Connection) -> Iterator[None]:
    """Text is decoded without a call of ours for each value; raises OperationalError when one is not UTF-8."""
    lenient = connection.text_factory
    connection.text_factory = str
    try:
        yield
    finally:
        connection.text_factory = lenient


def _page(
    connection: sqlite3.Connection,
    region: str,
    shards: Sequence[int],
    before_ms: int,
    limit: int,
    after: GCEntry | None,
) -> list[Any]:
    rows: list[Any] = []
    ordered = sorted(shards)
    first = 0 if after is None else bisect_left(ordered, after.shard)
    for shard in ordered[first:]:
        left = limit - len(rows)
        if left <= 0:
            break
        if after is not None and shard == after.shard:
            cursor = _read_on(connection, region, before_ms, left, after)
        else:
            cursor = connection.execute(f"{OF_SHARD} {ORDER}", (region, shard, before_ms, left))
        rows += cursor.fetchall()
    return rows


def _read_on(connection: sqlite3.Connection, region: str, before_ms: int, limit: int, after: GCEntry) -> sqlite3.Cursor:
    """The rows of `after`'s shard behind it."""
    is_text = not isinstance(after.oid, BlobOid)
    place = "?6" if _is_plain(after.oid) or not is_text else "CAST(?6 AS TEXT)"
    oid = after.oid if _is_plain(after.oid) else _raw(after.oid)
    return connection.execute(
        f"{OF_SHARD} AND (enqueued_at, oid) > (?5, {place}) {ORDER}",
        (region, after.shard, before_ms, limit, after.enqueued_at_ms, oid),
    )


def _delete(connection: sqlite3.Connection, table: str, entries: Sequence[GCEntry]) -> None:
    plain, odd = _split(entries)
    connection.executemany(f"DELETE FROM {table} WHERE {KEY}", [entry[:4] for entry in plain])
    for entry in odd:
        where, key = _key(entry)
        connection.execute(f"DELETE FROM {table} WHERE {where}", key)


def _split(entries: Sequence[GCEntry]) -> tuple[Sequence[GCEntry], Sequence[GCEntry]]:
    """Those whose oid can be bound as the text it is, and the others."""
    oids = list(map(OID, entries))
    if BlobOid not in map(type, oids) and all(map(str.isascii, oids)):
        return entries, ()
    return [each for each in entries if _is_plain(each.oid)], [each for each in entries if not _is_plain(each.oid)]


def _is_plain(oid: str) -> bool:
    """Whether the oid can be bound as the text it is."""
    if isinstance(oid, BlobOid):
        return False
    return oid.isascii() or not any("\ud800" <= character <= "\udfff" for character in oid)


def _key(entry: GCEntry) -> tuple[str, tuple[str, int, int, str | bytes]]:
    """The condition that meets the entry's row, and what to bind as ?1 to ?4."""
    if _is_plain(entry.oid):
        return KEY, entry[:4]
    where = KEY if isinstance(entry.oid, BlobOid) else ODD_KEY
    return where, (entry.region, entry.shard, entry.enqueued_at_ms, _raw(entry.oid))


def _raw(oid: str) -> bytes:
    """The bytes that stand in the table."""
    return oid.encode("utf-8", "surrogateescape")


def _entry(row: Sequence[Any]) -> GCEntry:
    if type(row[3]) is bytes:
        row = (*row[:3], BlobOid(row[3].decode("utf-8", "surrogateescape")), *row[4:7])
    return GCEntry._make(row)
