"""The witness: stands outside the code under test and notes who works under which lease, and what the truth was then.

It takes its stamp before and after each effect. It fails on: an effect that starts while the lease's row names another
holder or nobody; two nodes inside one lease at once; an effect of a term whose token is lower than one already seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.leader.store import LeaseRow, LeaseRows, ReadLeases
from strata_daemon.ports.chunks import ChunkName, Deletion, NewChunk
from strata_daemon.stores.memory.leases import MemoryLeases


@dataclass(frozen=True)
class Stamp:
    at: float
    node: str
    lease: str
    holder: str | None


@dataclass
class Witness:
    """`truth` is the shared table itself, never a store under test. `faults` are what it saw go wrong."""

    truth: MemoryLeases
    entered: list[Stamp] = field(default_factory=list)
    inside: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    faults: list[str] = field(default_factory=list)
    # A frozen or dead process is inside without working: what it had sent is conditional on content (design.md 4).
    still: set[str] = field(default_factory=set)

    def row(self, lease: str) -> LeaseRow | None:
        reply = self.truth.execute(ReadLeases((lease,)))
        assert isinstance(reply, LeaseRows) and reply.rows is not None
        return reply.rows.get(lease)

    def enter(self, at: float, node: str, lease: str) -> None:
        row = self.row(lease)
        holder = row.holder if row is not None else None
        self.entered.append(Stamp(at, node, lease, holder))
        if holder is None or holder.split("/", 1)[0] != node:
            self.faults.append(f"{at:.2f}: {node} works under {lease}, which {holder} holds")
        others = [other for other in self.inside[lease] if other != node and other not in self.still]
        if others:
            self.faults.append(f"{at:.2f}: {node} and {others} are inside {lease} at once")
        self.inside[lease][node] = self.inside[lease].get(node, 0) + 1

    def leave(self, at: float, node: str, lease: str) -> None:
        left = self.inside[lease].get(node, 1) - 1
        if left:
            self.inside[lease][node] = left
        else:
            self.inside[lease].pop(node, None)
        row = self.row(lease)
        if node not in self.still and (row is None or (row.holder or "").split("/", 1)[0] != node):
            self.faults.append(f"{at:.2f}: {node} was still inside {lease} when its row was gone")

    def last_by(self, lease: str) -> str | None:
        return next((stamp.node for stamp in reversed(self.entered) if stamp.lease == lease), None)


class WitnessedChunks:
    """A chunk store whose deletions take `effect_s` of virtual time and pass the witness."""

    delete_batch = 50
    delete_time_s: float = 0.5

    def __init__(self, runtime: Runtime, node: str, witness: Witness, slots: int) -> None:
        self._runtime = runtime
        self._node = node
        self._witness = witness
        self._slots = slots
        self.effect_s = 0.2
        self.deleted: list[str] = []
        self.answer: Deletion | None = None
        self.crash_on: str | None = None
        self.hang = runtime.event()
        self.is_hanging = False

    def clusters(self) -> frozenset[str]:
        return frozenset({"default"})

    def delete(self, chunks: Sequence[ChunkName]) -> list[Deletion]:
        from strata_daemon.domain.sharding import gc_shard
        from strata_daemon.ports.chunks import DELETED

        lease = f"gc-leader-{gc_shard(chunks[0].oid) % self._slots}"
        if self.crash_on is not None and any(chunk.oid == self.crash_on for chunk in chunks):
            raise RuntimeError("poison")
        self._witness.enter(self._runtime.now(), self._node, lease)
        if self.is_hanging:
            self.hang.wait(None)
        self._runtime.event().wait(self.effect_s)
        self._witness.leave(self._runtime.now(), self._node, lease)
        self.deleted.extend(chunk.oid for chunk in chunks)
        return [self.answer or DELETED] * len(chunks)

    def put(self, chunk: ChunkName, body: bytes, backref: bytes) -> None:
        raise AssertionError("nothing is put here")

    def put_many(self, chunks: Sequence[NewChunk]) -> None:
        raise AssertionError("nothing is put here")

    def get(self, chunk: ChunkName) -> bytes:
        raise KeyError(chunk)

    def backref(self, chunk: ChunkName) -> bytes:
        raise KeyError(chunk)

    def backrefs(self, chunks: Sequence[ChunkName]) -> list[bytes | None | StoreUnavailable]:
        return [None] * len(chunks)
