"""Manifests of keys in `objects`, as gc asks for them before it deletes (strata-keyspace.md 1.5, 1.6)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from uuid import UUID

from strata_daemon.base.runtime import Runtime
from strata_daemon.domain.sharding import object_shard
from strata_daemon.ports.manifests import ObjectKey
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import (
    READ_BUCKET_LAYOUTS,
    READ_BUCKET_LAYOUTS_OLD,
    READ_MANIFESTS,
    Statement,
)

# The gateways cache a bucket's layout for 10 s (strata-keyspace.md 1.1); ours need not be fresher, since both layouts
# of a reshard are looked at.
LAYOUTS_S = 10.0
DEFAULT_SHARDS = 64  # STRATA_BUCKET_SHARDS, for a bucket whose count is null


class CassandraManifests:
    """Thread-safe. `buckets` has no index by id, so its few columns are read as a whole, now and then."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._runtime: Runtime = ring.runtime
        self._lock = threading.Lock()  # guards _layouts and _read_at
        self._layouts: dict[UUID, tuple[int, ...]] = {}
        self._read_at = float("-inf")

    def of_keys(self, keys: Sequence[ObjectKey]) -> list[list[bytes]]:
        """Every version in every shard that the key may be in: that of the bucket's layout, and of the target's while
        it is resharded."""
        layouts = self._layouts_now()
        requests, of = [], []
        for index, (bucket_id, key) in enumerate(keys):
            # A bucket that is not there has no objects; one made since the last look is in nobody's gc queue yet.
            for shard in sorted({object_shard(key, count) for count in layouts.get(bucket_id, ())}):
                requests.append(self._ring.bind(READ_MANIFESTS, (bucket_id, shard, key)))
                of.append(index)
        found: list[list[bytes]] = [[] for _ in keys]
        for index, rows in zip(of, self._ring.gather(requests), strict=True):
            found[index] += [manifest for (manifest,) in rows if manifest]
        return found

    def _layouts_now(self) -> dict[UUID, tuple[int, ...]]:
        now = self._runtime.now()
        with self._lock:
            if now - self._read_at < LAYOUTS_S:
                return self._layouts
        layouts = {row[0]: _counts(*row[1:]) for row in self._ring.read(self._statement())}
        with self._lock:
            self._layouts, self._read_at = layouts, now
        return layouts

    def _statement(self) -> Statement:
        """`shard_count_target` is missing in a keyspace that no new gateway has touched: nothing is resharded there."""
        return (
            READ_BUCKET_LAYOUTS if self._ring.has_column("buckets", "shard_count_target") else READ_BUCKET_LAYOUTS_OLD
        )


def _counts(shard_count: int | None, target: int | None = None) -> tuple[int, ...]:
    first = shard_count if shard_count and shard_count > 0 else DEFAULT_SHARDS
    return (first, target) if target and target > 0 else (first,)
