"""Which shard a name falls into (strata-keyspace.md 1.5): fixed for ever, since Strata's gateways compute the same."""

from __future__ import annotations

from uuid import UUID

GC_SHARDS = 1024
_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF


def fnv1a32(data: bytes) -> int:
    """FNV-1a with 32 bits."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def gc_shard(oid: str) -> int:
    """The logical shard 0..1023 of a queued chunk."""
    return fnv1a32(oid.encode("utf-8", "surrogateescape")) % GC_SHARDS


def slot_shards(slot: int, slots: int) -> tuple[int, ...]:
    """The logical shards of slot `slot` of `slots`: those s with s mod slots = slot, ascending."""
    return tuple(range(slot, GC_SHARDS, slots))


def object_shard(key: str, shard_count: int) -> int:
    """The shard of an object's row in a bucket of `shard_count` shards."""
    return fnv1a32(key.encode("utf-8", "surrogateescape")) % shard_count


def bucket_slot(bucket_id: UUID, slots: int) -> int:
    """The slot 0..slots-1 of a bucket, by its id in lower-case canonical form."""
    return fnv1a32(str(bucket_id).encode("ascii")) % slots
