"""Where chunk bytes live, by cluster. Deletion answers for each chunk alone: gone, surely absent, or not known."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from strata_daemon.base.errors import StoreUnavailable


class ChunkName(NamedTuple):
    """A chunk's place: cluster, pool, namespace, oid (strata-keyspace.md 2.1, ChunkRef 1-4)."""

    cluster: str
    pool: str
    namespace: str
    oid: str


class DeleteState(Enum):
    DELETED = "deleted"
    ABSENT = "absent"
    FAILED = "failed"


class Deletion(NamedTuple):
    """What became of one deletion. `reason` is a short label for counting, `detail` a sentence for the log."""

    state: DeleteState
    reason: str = ""
    detail: str = ""


DELETED = Deletion(DeleteState.DELETED)
ABSENT = Deletion(DeleteState.ABSENT)


class NewChunk(NamedTuple):
    """A chunk to be written, with its back-reference (strata-keyspace.md 2.4)."""

    name: ChunkName
    body: bytes
    backref: bytes


# Labels of failed deletions; one set for all backends, since they are metric labels.
UNKNOWN_CLUSTER = "unknown_cluster"
BAD_OID = "bad_oid"
UNAVAILABLE = "unavailable"
REFUSED = "refused"
IN_USE = "in_use"


class ChunkStore(Protocol):
    """Chunk bytes. Thread-safe. A missing root or server is a failure, never an absent chunk (faults.md 59)."""

    @property
    def delete_time_s(self) -> float:
        """How long one `delete` call may take: what a guarded caller asks of `check` (seconds)."""
        ...

    @property
    def delete_batch(self) -> int:
        """The most chunks that fit into one `delete` within `delete_time_s`."""
        ...

    def clusters(self) -> frozenset[str]:
        """The clusters that this process can reach."""
        ...

    def delete(self, chunks: Sequence[ChunkName]) -> list[Deletion]:
        """Delete chunks of any clusters; one answer a chunk, in order. DELETED and ABSENT are durable on return."""
        ...

    def put(self, chunk: ChunkName, body: bytes, backref: bytes) -> None:
        """Write a chunk with its back-reference; durable on return. Raises StoreUnavailable or ChunkRefused.

        ChunkRefused too when a chunk of that name is there: names are never used again.
        """
        ...

    def put_many(self, chunks: Sequence[NewChunk]) -> None:
        """Write chunks of any clusters, with one sync for all; all durable on return. Raises as `put` does, and then
        any part of them may have been written."""
        ...

    def get(self, chunk: ChunkName) -> bytes:
        """The bytes of a chunk. Raises KeyError when surely absent, StoreUnavailable when it could not look."""
        ...

    def backref(self, chunk: ChunkName) -> bytes:
        """The back-reference written with a chunk (empty: none). Raises as `get` does."""
        ...

    def backrefs(self, chunks: Sequence[ChunkName]) -> list[bytes | None | StoreUnavailable]:
        """Those of many chunks, in order; None for one that is surely absent or of no cluster that is known, the error
        for one that could not be looked at. A backend that keeps none answers at once."""
        ...
