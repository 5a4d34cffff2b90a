"""Asks, before chunks are deleted, whether a live manifest still names them (defect G4: else a wrong entry in the queue
is data loss after the grace). A chunk's back-reference tells its owner; one without tells nothing, and is deleted.

Called on the threads that delete. What it read may change until the deletion: manifests are only ever given new chunks,
so a chunk that no manifest named after its grace is named by none later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.domain import backref
from strata_daemon.domain.backref import BackRefError
from strata_daemon.domain.manifest import ManifestError, decode
from strata_daemon.ports.chunks import IN_USE, UNAVAILABLE, ChunkName, DeleteState, Deletion
from strata_daemon.ports.manifests import ObjectKey
from strata_daemon.workers.contract import Dependencies
from strata_daemon.workers.gc.settings import GCSettings


class Verification:
    def __init__(self, deps: Dependencies, settings: GCSettings) -> None:
        self._data = deps.data
        self._manifests = deps.meta.manifests
        self._is_on = settings.verify == "manifest"

    def blocked(self, chunks: Sequence[ChunkName]) -> Mapping[ChunkName, Deletion]:
        """Those that must not be deleted, and why. Raises StoreUnavailable when the manifests could not be read."""
        if not self._is_on:
            return {}
        told = self._data.backrefs(chunks)
        if not any(told):
            return {}
        blocked: dict[ChunkName, Deletion] = {}
        owners: dict[ChunkName, ObjectKey] = {}
        for chunk, found in zip(chunks, told, strict=True):
            if isinstance(found, StoreUnavailable):
                blocked[chunk] = Deletion(DeleteState.FAILED, UNAVAILABLE, str(found))
                continue
            owner = _owner(found)
            if owner is not None:
                owners[chunk] = owner
        if owners:
            keys = sorted(set(owners.values()))
            named = dict(zip(keys, self._manifests.of_keys(keys), strict=True))
            for chunk, owner in owners.items():
                reason = _use(chunk, owner, named[owner])
                if reason:
                    blocked[chunk] = Deletion(DeleteState.FAILED, IN_USE, reason)
        return blocked


def _owner(blob: bytes | None) -> ObjectKey | None:
    if not blob:
        return None
    try:
        decoded = backref.decode(blob)
    except BackRefError:
        return None
    return ObjectKey(decoded.bucket_id, decoded.key)


def _use(chunk: ChunkName, owner: ObjectKey, manifests: Sequence[bytes]) -> str:
    """Why the chunk is in use; empty when it is not. In doubt it is."""
    for blob in manifests:
        try:
            manifest = decode(blob)
        except ManifestError as exc:
            return f"the manifest of {owner.key!r} cannot be read: {exc}"
        refs = manifest.chunks if manifest is not None else ()
        if any(ref.oid == chunk.oid and ref.cluster == chunk.cluster for ref in refs):
            return f"the object {owner.key!r} of bucket {owner.bucket_id} still names it"
    return ""
