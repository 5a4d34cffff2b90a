"""Whether a live manifest still names a chunk is asked before it is deleted (defect G4)."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.domain.backref import BackRef
from strata_daemon.domain.manifest import ChunkRef, Manifest
from strata_daemon.ports.chunks import IN_USE, UNAVAILABLE, ChunkName, DeleteState
from strata_daemon.ports.manifests import ObjectKey
from strata_daemon.workers.gc.settings import GCSettings
from strata_daemon.workers.gc.verification import Verification

BUCKET = UUID(int=7)
CHUNK = ChunkName("c1", "", "", "a.00000")


def _manifest(*oids: str, cluster: str = "c1") -> bytes:
    chunks = [ChunkRef(cluster, "", "", oid, 1, 0) for oid in oids]
    return Manifest.of(storage_class="STANDARD", size=1, etag="", chunks=chunks).encode()


class World:
    """What the chunks tell of their owners, and which manifests stand there."""

    def __init__(self) -> None:
        self.backref: bytes | None | StoreUnavailable = BackRef(BUCKET, 0, 0, "k").encode()
        self.manifests: dict[ObjectKey, list[bytes]] = {}
        self.asked: list[ObjectKey] = []

    def backrefs(self, chunks: Sequence[ChunkName]) -> list[bytes | None | StoreUnavailable]:
        return [self.backref for _ in chunks]

    def of_keys(self, keys: Sequence[ObjectKey]) -> list[list[bytes]]:
        self.asked += keys
        return [self.manifests.get(key, []) for key in keys]

    def blocked(self, *chunks: ChunkName, verify: str = "manifest") -> dict[ChunkName, Any]:
        deps: Any = SimpleNamespace(data=self, meta=SimpleNamespace(manifests=self))
        return dict(Verification(deps, GCSettings(verify=verify)).blocked(chunks or (CHUNK,)))


@pytest.fixture
def world() -> World:
    return World()


def test_a_chunk_that_a_live_manifest_names_is_blocked_with_the_object(world: World) -> None:
    world.manifests[ObjectKey(BUCKET, "k")] = [_manifest("other"), _manifest("x", "a.00000")]
    (found,) = world.blocked().values()
    assert (found.state, found.reason) == (DeleteState.FAILED, IN_USE)
    assert "'k'" in found.detail and str(BUCKET) in found.detail


def test_a_chunk_that_no_version_names_any_more_is_free(world: World) -> None:
    world.manifests[ObjectKey(BUCKET, "k")] = [_manifest("b.00000")]
    assert world.blocked() == {}


def test_a_chunk_of_another_cluster_with_the_same_oid_is_another_chunk(world: World) -> None:
    """A rebalance leaves such twins: the source is queued while the copy is named."""
    world.manifests[ObjectKey(BUCKET, "k")] = [_manifest("a.00000", cluster="c2")]
    assert world.blocked() == {}


def test_a_chunk_whose_object_is_gone_is_free(world: World) -> None:
    assert world.blocked() == {}
    assert world.asked == [ObjectKey(BUCKET, "k")]


@pytest.mark.parametrize("backref", [None, b"", b"\x09rubbish"], ids=["absent", "none", "rubbish"])
def test_a_chunk_that_tells_no_owner_is_free_without_a_question(world: World, backref: bytes | None) -> None:
    world.backref = backref
    assert world.blocked() == {}
    assert world.asked == []


def test_a_manifest_that_cannot_be_read_blocks(world: World) -> None:
    """In doubt the chunk stays."""
    world.manifests[ObjectKey(BUCKET, "k")] = [b"\xff\xff\xff"]
    (found,) = world.blocked().values()
    assert found.reason == IN_USE and "cannot be read" in found.detail


def test_a_backend_that_could_not_be_looked_at_blocks_as_unavailable(world: World) -> None:
    world.backref = StoreUnavailable("the disk is away")
    (found,) = world.blocked().values()
    assert (found.state, found.reason, found.detail) == (DeleteState.FAILED, UNAVAILABLE, "the disk is away")


def test_one_question_is_asked_for_the_chunks_of_one_object(world: World) -> None:
    world.blocked(*(ChunkName("c1", "", "", f"a.{i:05}") for i in range(5)))
    assert world.asked == [ObjectKey(BUCKET, "k")]


def test_switched_off_it_asks_nothing(world: World) -> None:
    world.manifests[ObjectKey(BUCKET, "k")] = [_manifest("a.00000")]
    assert world.blocked(verify="off") == {}
