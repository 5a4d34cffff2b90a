"""Putting and removing objects so that a crash in any place leaks no chunk and loses none (strata-keyspace.md 11.12).

An intent that names the chunks is durable before the first chunk file of a put, and before the row of a removal goes.
Whoever starts next replays the intents of dead writers. Deleting chunks is gc's part. The caller's thread.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import BinaryIO
from uuid import UUID, uuid4

import google_crc32c

from strata_daemon.base import log
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.domain.backref import BackRef
from strata_daemon.domain.manifest import CHUNK_BYTES, ChunkRef, Manifest, ManifestError, chunk_names, decode
from strata_daemon.ports.chunks import ChunkName, ChunkStore
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.ports.objects import Intent, ObjectRow, Replaced

PUT, REMOVE = "put", "remove"
CLUSTER, STORAGE_CLASS = "default", "STANDARD"
TRIES = 10  # of a put whose key changes hands all the time
MILLISECOND = timedelta(milliseconds=1)


class BodyChanged(Exception):
    """A stream did not hold as many bytes as it was said to; nothing was put."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did: intents ended, chunks that it queued, intents left for a later start."""

    ended: int = 0
    queued: int = 0
    left: int = 0


def put(
    meta: EmbeddedMeta,
    data: ChunkStore,
    runtime: Runtime,
    bucket: str,
    key: str,
    body: bytes | BinaryIO,
    size: int | None = None,
    content_type: str = "application/octet-stream",
) -> ObjectRow:
    """Put an object into a bucket, which is made when it is not there; what it replaces is queued.

    `size` in bytes must be given for a stream, and is read from it exactly. Raises StoreUnavailable (when it is not
    known whether the row was written, its chunks are left to the next start's replay), ChunkRefused, BodyChanged,
    ManifestError for a row there that does not decode.
    """
    if isinstance(body, bytes):
        size, body = len(body), io.BytesIO(body)
    if size is None:
        raise ValueError("a stream needs its size")
    bucket_id = meta.objects.make_bucket(bucket).bucket_id
    oid = str(uuid4())
    chunks = tuple(ChunkName(CLUSTER, "", "", f"{oid}.{index:05d}") for index in range(-(-size // CHUNK_BYTES)))
    found = _found(meta, bucket_id, key)
    mtime = _mtime(runtime, found)
    intent = Intent(uuid4(), PUT, meta.objects.writer(), bucket_id, key, mtime, chunks)
    meta.objects.begin(intent)
    try:
        refs, etag = _write(data, intent, body, size)
    except BaseException:
        # No row names these chunks, nor ever will.
        meta.objects.settle(intent, now_ms(runtime))
        raise
    manifest = Manifest.of(storage_class=STORAGE_CLASS, size=size, etag=etag, chunks=refs).encode()
    row = ObjectRow(bucket_id, key, size, etag, content_type, STORAGE_CLASS, mtime, manifest)
    for _ in range(TRIES):
        if meta.objects.put(row, intent, found, now_ms(runtime)):
            return row
        found = _found(meta, bucket_id, key)
        row = replace(row, mtime=_mtime(runtime, found))
    meta.objects.settle(intent, now_ms(runtime))
    raise StoreUnavailable(f"The object {key!r} was changed by somebody else {TRIES} times in a row; nothing was put.")


def remove(meta: EmbeddedMeta, runtime: Runtime, bucket: str, key: str) -> bool:
    """Remove an object and queue its chunks; False when it is not there, or was replaced while we looked.

    Raises StoreUnavailable, and ManifestError when its chunks cannot be told: it stays then.
    """
    found_bucket = meta.objects.bucket(bucket)
    row = None if found_bucket is None else meta.objects.get(found_bucket.bucket_id, key)
    return row is not None and remove_row(meta, runtime, row)


def remove_row(meta: EmbeddedMeta, runtime: Runtime, row: ObjectRow) -> bool:
    """As `remove`, for a row that was read: only that very row goes (faults.md 58)."""
    intent = Intent(uuid4(), REMOVE, meta.objects.writer(), row.bucket_id, row.key, row.mtime, _chunks(row))
    meta.objects.begin(intent)
    applied = meta.objects.delete_if(row.bucket_id, row.key, row.mtime)
    # Not applied: who removed or replaced the row has queued its chunks.
    meta.objects.settle(intent, now_ms(runtime) if applied else None)
    return applied


def replay(meta: EmbeddedMeta, data: ChunkStore, runtime: Runtime) -> Replayed:
    """End the intents of writers that died. One that cannot be judged stays for the next start, with a line in the log.

    Repeating any part of this changes nothing. Raises StoreUnavailable.
    """
    logger = log.logger("intents")
    ended = queued = left = 0
    for intent in meta.objects.intents():
        if meta.objects.is_writer_alive(intent.writer):
            continue
        fields = {"kind": intent.kind, "key": intent.key, "writer": intent.writer}
        try:
            unnamed = _unnamed(meta, intent)
        except ManifestError as exc:
            left += 1
            logger.error("intent not replayed", extra={**fields, "error": str(exc)})
            continue
        meta.objects.settle(replace(intent, chunks=unnamed), now_ms(runtime) if unnamed else None)
        ended += 1
        queued += len(unnamed)
        logger.info("intent replayed", extra={**fields, "chunks": len(intent.chunks), "queued": len(unnamed)})
    return Replayed(ended, queued, left)


def now_ms(runtime: Runtime) -> int:
    """The instant to queue chunks at, as the queue's key has it: milliseconds since 1970."""
    return int(runtime.wall().timestamp() * 1000)


def _unnamed(meta: EmbeddedMeta, intent: Intent) -> tuple[ChunkName, ...]:
    """The chunks of an intent that no row names, for good. A removal is repeated first: a read alone would not tell
    whether the dead writer's delete is still to come."""
    row = meta.objects.get(intent.bucket_id, intent.key)
    named = set() if row is None else set(_chunks(row))
    if intent.kind == REMOVE and row is not None and row.mtime == intent.mtime and named == set(intent.chunks):
        if meta.objects.delete_if(intent.bucket_id, intent.key, intent.mtime):
            return intent.chunks
        row = meta.objects.get(intent.bucket_id, intent.key)
        named = set() if row is None else set(_chunks(row))
    return tuple(chunk for chunk in intent.chunks if chunk not in named)


def _write(data: ChunkStore, intent: Intent, body: BinaryIO, size: int) -> tuple[list[ChunkRef], str]:
    """Write the chunks; what the manifest says of them, and the md5 of all bytes in hex."""
    digest = hashlib.md5(usedforsecurity=False)
    refs: list[ChunkRef] = []
    for index, (chunk, part) in enumerate(zip(intent.chunks, _parts(body, size, intent.key), strict=True)):
        digest.update(part)
        backref = BackRef(intent.bucket_id, _ns(intent.mtime), index, intent.key).encode()
        data.put(chunk, part, backref)
        refs.append(ChunkRef(*chunk, size=len(part), crc32c=int(google_crc32c.value(part))))
    return refs, digest.hexdigest()


def _parts(body: BinaryIO, size: int, key: str) -> Iterator[bytes]:
    """Parts of 4 MiB, the last one shorter; `size` bytes in all. Raises BodyChanged."""
    left = size
    while left:
        part = body.read(min(CHUNK_BYTES, left))
        if len(part) < min(CHUNK_BYTES, left):
            raise BodyChanged(f"What was to become {key!r} shrank while it was read; nothing was put.")
        left -= len(part)
        yield part
    if body.read(1):
        raise BodyChanged(f"What was to become {key!r} grew while it was read; nothing was put.")


def _found(meta: EmbeddedMeta, bucket_id: UUID, key: str) -> Replaced | None:
    row = meta.objects.get(bucket_id, key)
    return None if row is None else Replaced(row.mtime, _chunks(row))


def _mtime(runtime: Runtime, found: Replaced | None) -> datetime:
    """Now, in whole milliseconds, but later than what is replaced: an mtime is what a removal goes by."""
    wall = runtime.wall()
    now = wall.replace(microsecond=wall.microsecond // 1000 * 1000)
    return now if found is None else max(now, found.mtime + MILLISECOND)


def _chunks(row: ObjectRow) -> tuple[ChunkName, ...]:
    """Raises ManifestError that names the object."""
    try:
        refs: Sequence[ChunkRef] = chunk_names(decode(row.manifest))
    except ManifestError as exc:
        raise ManifestError(f"The object {row.key!r} is left as it is: {exc}") from exc
    return tuple(ChunkName(ref.cluster, ref.pool, ref.namespace, ref.oid) for ref in refs)


def _ns(mtime: datetime) -> int:
    return int(mtime.timestamp() * 1000) * 1_000_000
