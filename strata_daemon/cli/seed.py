"""Fills the gc queue for trials and measurements, with chunk files or without. The command's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

from strata_daemon.base.runtime import Runtime
from strata_daemon.domain.backref import BackRef
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.ports.chunks import ChunkName, ChunkStore, NewChunk
from strata_daemon.ports.gc_queue import GCEntry, GCQueue
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.ports.objects import Intent
from strata_daemon.workers.intents import CLUSTER, PUT, now_ms

BATCH = 2000
SLAB = 100_000  # names that are sorted by folder together
NOBODY = UUID(int=0)  # the bucket of chunks that no object ever names


def seed_rows(
    queue: GCQueue, runtime: Runtime, region: str, count: int, on_done: Callable[[int], None], cluster: str = CLUSTER
) -> None:
    """Queue `count` chunks of `cluster` that have no file; the cluster may be an unknown one. Raises
    StoreUnavailable."""
    for chunks in _batches(count, cluster):
        at_ms = now_ms(runtime)
        queue.enqueue([GCEntry(region, gc_shard(each.oid), at_ms, each.oid, cluster, "", "") for each in chunks])
        on_done(len(chunks))


def seed_with_files(
    meta: EmbeddedMeta,
    data: ChunkStore,
    runtime: Runtime,
    count: int,
    size_bytes: int,
    on_done: Callable[[int], None],
    cluster: str = CLUSTER,
) -> None:
    """Queue `count` chunks of `cluster`, each with a file of `size_bytes`; `data` must know the cluster.

    A crash leaves no file that neither the queue nor an intent names. Raises StoreUnavailable, ChunkRefused.
    """
    for chunks in _batches(count, cluster):
        _with_files(meta, data, runtime, chunks, bytes(size_bytes))
        on_done(len(chunks))


def _with_files(
    meta: EmbeddedMeta, data: ChunkStore, runtime: Runtime, chunks: tuple[ChunkName, ...], body: bytes
) -> None:
    """As a put that is given up: the intent first, then the files, then the queue."""
    wall = runtime.wall()
    intent = Intent(uuid4(), PUT, meta.objects.writer(), NOBODY, "", wall, chunks)
    meta.objects.begin(intent)
    try:
        backref = BackRef(NOBODY, int(wall.timestamp() * 1000) * 1_000_000, 0, "seed").encode()
        data.put_many([NewChunk(chunk, body, backref) for chunk in chunks])
    finally:
        meta.objects.settle(intent, now_ms(runtime))


def _batches(count: int, cluster: str) -> Iterator[tuple[ChunkName, ...]]:
    """Sorted by shard within a slab, so that a batch touches few folders."""
    for first in range(0, count, SLAB):
        oids = sorted((f"{uuid4()}.00000" for _ in range(min(SLAB, count - first))), key=gc_shard)
        for start in range(0, len(oids), BATCH):
            yield tuple(ChunkName(cluster, "", "", oid) for oid in oids[start : start + BATCH])
