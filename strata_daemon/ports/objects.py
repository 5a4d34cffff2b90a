"""Buckets, objects and the intents that make a removal crash-safe (strata-keyspace.md 1.2, 1.6, section 11 rule 12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from strata_daemon.ports.chunks import ChunkName


@dataclass(frozen=True, slots=True)
class Bucket:
    name: str
    bucket_id: UUID
    created_at: datetime
    shard_count: int


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """An object of an unversioned bucket. `manifest` is the stored blob, as written; `mtime` is aware UTC in ms."""

    bucket_id: UUID
    key: str
    size: int
    etag: str
    content_type: str
    storage_class: str
    mtime: datetime
    manifest: bytes


@dataclass(frozen=True, slots=True)
class Intent:
    """Chunks that are about to lose, or have not yet got, the row that names them; durable before either.

    `kind` is "remove" (the row of `key` with `mtime` will go, then the chunks are queued) or "put" (the chunks are
    being written; the row will follow). `writer` names the process at work; a replay leaves living writers alone.
    """

    intent_id: UUID
    kind: str
    writer: str
    bucket_id: UUID
    key: str
    mtime: datetime
    chunks: tuple[ChunkName, ...]


@dataclass(frozen=True, slots=True)
class Replaced:
    """A row about to be overwritten, as it was read, and the chunks that only it names."""

    mtime: datetime
    chunks: tuple[ChunkName, ...]


class Objects(Protocol):
    """Buckets, objects, intents. Calls block for at most a few seconds and raise StoreUnavailable."""

    def make_bucket(self, name: str) -> Bucket:
        """The bucket of that name, made when it is not there."""
        ...

    def bucket(self, name: str) -> Bucket | None: ...

    def buckets(self) -> Sequence[Bucket]: ...

    def get(self, bucket_id: UUID, key: str) -> ObjectRow | None: ...

    def list(self, bucket_id: UUID, prefix: str = "") -> Iterator[ObjectRow]:
        """Objects by key, paged inside; raises rather than end early."""
        ...

    def begin(self, intent: Intent) -> None:
        """Write an intent; durable on return."""
        ...

    def put(self, row: ObjectRow, intent: Intent, replaced: Replaced | None, queue_at_ms: int) -> bool:
        """In one transaction write the row, end the put's intent and queue the chunks of the row that is replaced.

        Only while what stands there is still the row of `replaced` (None: no row); else nothing is done and the
        answer is False. Durable on return.
        """
        ...

    def delete_if(self, bucket_id: UUID, key: str, mtime: datetime) -> bool:
        """Remove the row if it still shows `mtime`; say whether it did."""
        ...

    def settle(self, intent: Intent, queue_at_ms: int | None) -> None:
        """End an intent; with `queue_at_ms` its chunks enter the gc queue in the same transaction."""
        ...

    def intents(self) -> Sequence[Intent]: ...

    def writer(self) -> str:
        """The name of this process as a writer; it counts as living until the process ends, however it ends."""
        ...

    def is_writer_alive(self, writer: str) -> bool: ...
