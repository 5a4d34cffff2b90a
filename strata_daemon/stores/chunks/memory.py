"""Chunks in memory, gone with the process: for tests and for measuring the queue alone. Any thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from strata_daemon.base.errors import ChunkRefused, StoreUnavailable
from strata_daemon.ports.chunks import DELETED, UNKNOWN_CLUSTER, ChunkName, DeleteState, Deletion, NewChunk

CLUSTERS = frozenset({"mem", "default"})


class MemoryChunkStore:
    """Knows the clusters `mem` (where a gateway's memory backend puts its chunks) and `default`.

    Deleting an absent chunk is DELETED, never ABSENT: entries whose bytes went with another process count as done.
    """

    delete_time_s = 1.0
    delete_batch = 10_000

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _chunks
        self._chunks: dict[ChunkName, tuple[bytes, bytes]] = {}

    def clusters(self) -> frozenset[str]:
        return CLUSTERS

    def delete(self, chunks: Sequence[ChunkName]) -> list[Deletion]:
        with self._lock:
            if self._chunks:
                for chunk in chunks:
                    self._chunks.pop(chunk, None)
        return [DELETED if chunk[0] in CLUSTERS else _unknown(chunk[0]) for chunk in chunks]

    def put(self, chunk: ChunkName, body: bytes, backref: bytes) -> None:
        self.put_many([NewChunk(chunk, body, backref)])

    def put_many(self, chunks: Sequence[NewChunk]) -> None:
        for name, _, _ in chunks:
            if name.cluster not in CLUSTERS:
                raise StoreUnavailable(_unknown(name.cluster).detail)
        with self._lock:
            for name, body, backref in chunks:
                if name in self._chunks:
                    raise ChunkRefused(f"The chunk {name.oid!r} is there already, and no name is used twice.")
                self._chunks[name] = (body, backref)

    def get(self, chunk: ChunkName) -> bytes:
        return self._find(chunk)[0]

    def backref(self, chunk: ChunkName) -> bytes:
        return self._find(chunk)[1]

    def backrefs(self, chunks: Sequence[ChunkName]) -> list[bytes | None | StoreUnavailable]:
        with self._lock:
            if not self._chunks:
                return [None] * len(chunks)
            found = [self._chunks.get(chunk) for chunk in chunks]
        return [None if each is None else each[1] for each in found]

    def _find(self, chunk: ChunkName) -> tuple[bytes, bytes]:
        if chunk.cluster not in CLUSTERS:
            raise StoreUnavailable(_unknown(chunk.cluster).detail)
        with self._lock:
            return self._chunks[chunk]


def _unknown(cluster: str) -> Deletion:
    known = ", ".join(sorted(CLUSTERS))
    sentence = f"The cluster {cluster[:100]!r} is not known to this process, which knows {known}."
    return Deletion(DeleteState.FAILED, UNKNOWN_CLUSTER, sentence)
