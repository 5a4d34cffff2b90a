"""Buckets, objects and intents in SQLite. Objects are those of unversioned buckets: one row a key, the null version."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import index
from typing import Any
from uuid import UUID, uuid4

from strata_daemon.base import log
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.domain.sharding import gc_shard, object_shard
from strata_daemon.ports.chunks import ChunkName
from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.ports.manifests import ObjectKey
from strata_daemon.ports.objects import Bucket, Intent, ObjectRow, Replaced
from strata_daemon.stores.sqlite import gc_queue
from strata_daemon.stores.sqlite.database import Database
from strata_daemon.stores.sqlite.nodes import from_ms, to_ms
from strata_daemon.stores.writers import Writers

NULL_VERSION = "00000000-0000-1000-8000-000000000000"  # as on disk in Strata (strata-keyspace.md 1.6)
SHARD_COUNT = 64  # STRATA_BUCKET_SHARDS
PAGE = 500
# A manifest that somebody stored as text is bytes all the same: the one row is judged then, not the whole listing.
# A key may be no UTF-8: bound as bytes, and compared as the text that it is.
OF_KEY = "bucket_id = ? AND key = CAST(? AS TEXT) AND version_id = ?"
ROW = "key, size, etag, content_type, storage_class, mtime, CAST(manifest AS BLOB)"


class SqliteObjects:
    """`region`: of the gc rows that it writes."""

    def __init__(self, database: Database, writers: Writers, region: str, runtime: Runtime) -> None:
        self._database = database
        self._writers = writers
        self._region = region
        self._runtime = runtime

    def make_bucket(self, name: str) -> Bucket:
        found = self.bucket(name)
        if found is not None:
            return found
        now = to_ms(self._runtime.wall())
        with self._database.write() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO buckets VALUES (?, ?, ?, 'Disabled', ?)", (name, str(uuid4()), now, SHARD_COUNT)
            )
            return _bucket(connection.execute(*_select_bucket(name)).fetchone())

    def bucket(self, name: str) -> Bucket | None:
        with self._database.read() as connection:
            row = connection.execute(*_select_bucket(name)).fetchone()
        return None if row is None else _bucket(row)

    def buckets(self) -> Sequence[Bucket]:
        with self._database.read() as connection:
            rows = connection.execute("SELECT name, id, created_at, shard_count FROM buckets ORDER BY name").fetchall()
        return [_bucket(row) for row in rows]

    def get(self, bucket_id: UUID, key: str) -> ObjectRow | None:
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {ROW} FROM objects WHERE {OF_KEY}", (str(bucket_id), _raw(key), NULL_VERSION)
            ).fetchone()
        return None if row is None else _object(bucket_id, row)

    def of_keys(self, keys: Sequence[ObjectKey]) -> list[list[bytes]]:
        with self._database.read() as connection:
            rows = [
                connection.execute(
                    f"SELECT CAST(manifest AS BLOB) FROM objects WHERE {OF_KEY}",
                    (str(bucket_id), _raw(key), NULL_VERSION),
                ).fetchone()
                for bucket_id, key in keys
            ]
        return [[row[0]] if row is not None and row[0] else [] for row in rows]

    def list(self, bucket_id: UUID, prefix: str = "") -> Iterator[ObjectRow]:
        start = after = _raw(prefix)
        is_first = True
        while True:
            with self._database.read() as connection:
                rows = connection.execute(
                    f"SELECT {ROW} FROM objects WHERE bucket_id = ? AND key {'>=' if is_first else '>'} CAST(? AS TEXT)"
                    f" AND typeof(key) = 'text' AND version_id = '{NULL_VERSION}'"
                    " ORDER BY key LIMIT ?",
                    (str(bucket_id), after, PAGE),
                ).fetchall()
            for row in rows:
                if not _raw(row[0]).startswith(start):
                    return
                yield _object(bucket_id, row)
            if len(rows) < PAGE:
                return
            after, is_first = _raw(rows[-1][0]), False

    def begin(self, intent: Intent) -> None:
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO intents VALUES (?, ?, ?, ?, CAST(? AS TEXT), ?, ?)",
                (
                    str(intent.intent_id),
                    intent.kind,
                    intent.writer,
                    str(intent.bucket_id),
                    _raw(intent.key),
                    to_ms(intent.mtime),
                    json.dumps(intent.chunks),
                ),
            )

    def put(self, row: ObjectRow, intent: Intent, replaced: Replaced | None, queue_at_ms: int) -> bool:
        key = (str(row.bucket_id), _raw(row.key), NULL_VERSION)
        with self._database.write() as connection:
            stands = connection.execute(f"SELECT mtime FROM objects WHERE {OF_KEY}", key).fetchone()
            if (None if stands is None else stands[0]) != (None if replaced is None else to_ms(replaced.mtime)):
                return False
            (shard_count,) = connection.execute("SELECT shard_count FROM buckets WHERE id = ?", key[:1]).fetchone()
            connection.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, CAST(? AS TEXT), ?, ?, 1, 0, ?, ?, ?, ?, ?, ?)",
                (
                    *key,
                    object_shard(row.key, shard_count),
                    row.size,
                    row.etag,
                    row.content_type,
                    row.storage_class,
                    to_ms(row.mtime),
                    row.manifest,
                ),
            )
            connection.execute("DELETE FROM intents WHERE id = ?", (str(intent.intent_id),))
            if replaced is not None:
                self._queue(connection, replaced.chunks, queue_at_ms)
        return True

    def delete_if(self, bucket_id: UUID, key: str, mtime: datetime) -> bool:
        with self._database.write() as connection:
            deleted = connection.execute(
                f"DELETE FROM objects WHERE {OF_KEY} AND mtime = ?",
                (str(bucket_id), _raw(key), NULL_VERSION, to_ms(mtime)),
            )
            return deleted.rowcount == 1

    def settle(self, intent: Intent, queue_at_ms: int | None) -> None:
        """Queues only while the intent stands: of two that replay it, one queues."""
        with self._database.write() as connection:
            ended = connection.execute("DELETE FROM intents WHERE id = ?", (str(intent.intent_id),))
            if queue_at_ms is not None and ended.rowcount:
                self._queue(connection, intent.chunks, queue_at_ms)

    def intents(self) -> Sequence[Intent]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id, kind, writer, bucket_id, key, mtime, chunks FROM intents ORDER BY id"
            ).fetchall()
        return [intent for row in rows if (intent := _intent(row)) is not None]

    def writer(self) -> str:
        return self._writers.own()

    def is_writer_alive(self, writer: str) -> bool:
        return self._writers.is_alive(writer)

    def _queue(self, connection: sqlite3.Connection, chunks: Sequence[ChunkName], at_ms: int) -> None:
        gc_queue.insert(
            connection,
            [
                GCEntry(self._region, gc_shard(chunk.oid), at_ms, chunk.oid, chunk.cluster, chunk.pool, chunk.namespace)
                for chunk in chunks
            ],
        )


def _select_bucket(name: str) -> tuple[str, tuple[str]]:
    return "SELECT name, id, created_at, shard_count FROM buckets WHERE name = ?", (name,)


def _raw(key: str) -> bytes:
    """The bytes that stand in the table."""
    return key.encode("utf-8", "surrogateescape")


def _bucket(row: Sequence[Any]) -> Bucket:
    """Raises StoreUnavailable for a row that cannot be understood."""
    try:
        return Bucket(str(row[0]), UUID(row[1]), from_ms(row[2]), index(row[3]))
    except (ValueError, TypeError, AttributeError, OverflowError) as exc:
        raise StoreUnavailable(f"The row of the bucket {row[0]!r} cannot be understood: {exc}") from exc


def _intent(row: Sequence[Any]) -> Intent | None:
    """None, said in the log, for a row that somebody else's hand has spoilt: it must not hide the others."""
    try:
        return Intent(
            intent_id=UUID(row[0]),
            kind=row[1],
            writer=row[2],
            bucket_id=UUID(row[3]),
            key=row[4],
            mtime=from_ms(row[5]),
            chunks=tuple(ChunkName(*each) for each in json.loads(row[6])),
        )
    except (ValueError, TypeError, AttributeError, OverflowError) as exc:
        log.logger("intents").error("intent not readable", extra={"intent": str(row[0]), "error": str(exc)})
        return None


def _object(bucket_id: UUID, row: Sequence[Any]) -> ObjectRow:
    """Raises StoreUnavailable for a row that cannot be understood. Not left out, since whoever lists may be asking
    which chunks are still named."""
    key, size, etag, content_type, storage_class, mtime, manifest = row
    try:
        return ObjectRow(
            bucket_id=bucket_id,
            key=key,
            size=index(size),
            etag=str(etag),
            content_type=str(content_type),
            storage_class=str(storage_class),
            mtime=from_ms(mtime),
            manifest=manifest,
        )
    except (ValueError, TypeError, OverflowError) as exc:
        raise StoreUnavailable(f"The row of the object {key!r} cannot be understood: {exc}") from exc
