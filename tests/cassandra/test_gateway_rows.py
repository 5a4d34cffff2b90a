"""Rows that a real gateway wrote, loaded into a ring: ours read them, and what ours write has the same columns."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.domain.backref import BackRef
from strata_daemon.domain.manifest import decode
from strata_daemon.domain.sharding import gc_shard, object_shard
from strata_daemon.leader.store import Insert, Reply
from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.ports.manifests import ObjectKey
from strata_daemon.ports.nodes import NodeRow
from strata_daemon.stores.cassandra.connect import connect
from strata_daemon.stores.cassandra.gc_queue import CassandraGCQueue
from strata_daemon.stores.cassandra.leases import CassandraLeaseStore
from strata_daemon.stores.cassandra.manifests import CassandraManifests
from strata_daemon.stores.cassandra.nodes import CassandraNodes
from strata_daemon.stores.cassandra.ring import Ring
from tests.cassandra.kit.keyspaces import Keyspaces

VECTORS = Path(__file__).parent / "vectors"
REGION = "strata-local"
AT = datetime(2026, 12, 1, 12, 0, 0, 123_000, tzinfo=UTC)


class Loaded:
    """A keyspace with the gateway's rows, and the product's client of it."""

    def __init__(self, keyspaces: Keyspaces) -> None:
        self.keyspaces = keyspaces
        settings = keyspaces.settings()
        self.ring = Ring(*connect(settings), settings, RealRuntime())

    def rows(self, table: str) -> list[dict[str, Any]]:
        head, *rows = (json.loads(line) for line in (VECTORS / f"{table}.jsonl").read_text().splitlines())
        assert len(rows) == head["_rows"]
        return rows

    def load(self, table: str) -> list[dict[str, Any]]:
        """Those columns of the rows that the table here has."""
        head = json.loads((VECTORS / f"{table}.jsonl").read_text().splitlines()[0])
        keyspace = self.ring.cluster.metadata.keyspaces[self.keyspaces.strata]
        known = keyspace.tables[table].columns
        rows = self.rows(table)
        for row in rows:
            values = {name: _value(head["_columns"][name], value) for name, value in row.items() if name in known}
            marks = ", ".join(["%s"] * len(values))
            cql = f"INSERT INTO {self.keyspaces.strata}.{table} ({', '.join(values)}) VALUES ({marks})"
            self.keyspaces.client.run(cql, list(values.values()))
        return rows

    def columns(self, table: str, row: str = "") -> dict[str, Any]:
        """The one row that `row` picks, by column, as the driver gives it."""
        names = sorted(self.ring.cluster.metadata.keyspaces[self.keyspaces.strata].tables[table].columns)
        (found,) = self.keyspaces.client.run(f"SELECT {', '.join(names)} FROM {self.keyspaces.strata}.{table} {row}")
        return dict(zip(names, found, strict=True))


def _value(kind: str, value: Any) -> Any:
    if kind == "blob":
        return base64.b64decode(value)
    if kind in ("uuid", "timeuuid"):
        return UUID(value)
    if kind == "timestamp":
        return datetime.fromtimestamp(value / 1000, UTC)
    return set(value) if kind.startswith("set") else value


@pytest.fixture
def loaded(keyspaces: Keyspaces) -> Iterator[Loaded]:
    made = Loaded(keyspaces)
    yield made
    for table in ("buckets", "objects"):
        keyspaces.client.run(f"TRUNCATE {keyspaces.strata}.{table}")
    made.ring.close(5.0)


def _kinds(row: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in row.items()}


def test_every_manifest_of_a_gateway_is_found_by_its_key_and_decoded(loaded: Loaded) -> None:
    loaded.load("buckets")
    rows = [row for row in loaded.load("objects") if row.get("manifest")]
    manifests = CassandraManifests(loaded.ring)
    keys = [ObjectKey(UUID(row["bucket_id"]), row["key"]) for row in rows]
    assert len(keys) > 80
    for row, found in zip(rows, manifests.of_keys(keys), strict=True):
        assert base64.b64decode(row["manifest"]) in found
        assert all(decode(blob) is not None for blob in found)


def test_a_key_that_is_not_there_has_no_manifest_and_all_versions_of_one_that_is_count(loaded: Loaded) -> None:
    loaded.load("buckets")
    rows = [row for row in loaded.load("objects") if row.get("manifest")]
    by_key: dict[ObjectKey, set[bytes]] = {}
    for row in rows:
        key = ObjectKey(UUID(row["bucket_id"]), row["key"])
        by_key.setdefault(key, set()).add(base64.b64decode(row["manifest"]))
    (key, blobs) = max(by_key.items(), key=lambda item: len(item[1]))
    assert len(blobs) > 1
    found = CassandraManifests(loaded.ring).of_keys(
        [key, ObjectKey(key.bucket_id, "not there"), ObjectKey(uuid4(), "x")]
    )
    assert (set(found[0]), found[1], found[2]) == (blobs, [], [])


def test_during_a_reshard_both_layouts_are_looked_at(loaded: Loaded) -> None:
    strata, client, bucket = loaded.keyspaces.strata, loaded.keyspaces.client, uuid4()
    client.run(
        f"INSERT INTO {strata}.buckets (name, id, shard_count, shard_count_target) VALUES ('b', %s, 4, 16)", (bucket,)
    )
    key = next(f"k{i}" for i in range(99) if object_shard(f"k{i}", 4) != object_shard(f"k{i}", 16))
    for shard, blob in ((object_shard(key, 4), b"old"), (object_shard(key, 16), b"new")):
        columns = "bucket_id, shard, key, version_id, manifest"
        client.run(
            f"INSERT INTO {strata}.objects ({columns}) VALUES (%s, %s, %s, now(), %s)", (bucket, shard, key, blob)
        )
    (found,) = CassandraManifests(loaded.ring).of_keys([ObjectKey(bucket, key)])
    assert set(found) == {b"old", b"new"}


def test_a_node_row_of_ours_has_the_columns_and_types_of_a_gateways(loaded: Loaded) -> None:
    (row,) = loaded.load("cluster_nodes")
    theirs = loaded.columns("cluster_nodes", f"WHERE node_id = '{row['node_id']}'")
    nodes = CassandraNodes(loaded.ring)
    nodes.write(NodeRow("n", "a:1", "v", AT, frozenset({"gc"}), frozenset({"gc"}), AT), 30)
    ours = loaded.columns("cluster_nodes", "WHERE node_id = 'n'")
    filled = {name: kind for name, kind in _kinds(theirs).items() if theirs[name] is not None}
    assert filled.items() <= _kinds(ours).items()
    assert ours["started_at"].replace(tzinfo=UTC) == AT


def test_a_queued_row_of_a_gateway_is_an_entry_and_ours_is_like_it(loaded: Loaded) -> None:
    for table in ("gc_entries_v2", "gc_entries_by_cluster", "gc_queue"):
        loaded.load(table)
    queue = CassandraGCQueue(loaded.ring)
    found = [entry for page in queue.pages(REGION, range(1024), 2**61, 99) for entry in page]
    rows = loaded.rows("gc_entries_v2")
    assert {(e.shard, e.enqueued_at_ms, e.oid, e.cluster, e.pool, e.namespace) for e in found} == {
        (r["shard_id"], r["enqueued_at"], r["oid"], r["cluster"], r["pool"], r["namespace"]) for r in rows
    }
    assert all(entry.shard == gc_shard(entry.oid) for entry in found)
    theirs = found[0]
    ours = theirs._replace(oid=f"{uuid4()}.0000")
    queue.enqueue([GCEntry(REGION, gc_shard(ours.oid), *ours[2:])])
    for table in ("gc_entries_v2", "gc_entries_by_cluster", "gc_queue"):
        one = loaded.columns(table, f"WHERE oid = '{theirs.oid}' ALLOW FILTERING")
        other = loaded.columns(table, f"WHERE oid = '{ours.oid}' ALLOW FILTERING")
        assert _kinds(one) == _kinds(other)
    queue.ack(found)
    left = [oid for (oid,) in loaded.keyspaces.client.run(f"SELECT oid FROM {loaded.keyspaces.strata}.gc_queue")]
    assert left == [ours.oid]


def test_a_lease_of_ours_is_a_name_and_a_holder_with_a_ttl(loaded: Loaded) -> None:
    store, runtime = CassandraLeaseStore(loaded.ring, 1.0), loaded.ring.runtime
    answered, replies = runtime.event(), list[Reply]()

    def deliver(got: Any) -> None:
        replies.extend(got)
        answered.set()

    store.submit([Insert("gc-leader-0", "n/1/uuid", 1, 30)], deliver)
    assert answered.wait(5.0)
    assert loaded.columns("worker_locks") == {"name": "gc-leader-0", "holder": "n/1/uuid"}
    ((ttl_s,),) = loaded.keyspaces.client.run(f"SELECT TTL(holder) FROM {loaded.keyspaces.strata}.worker_locks")
    assert 25 <= ttl_s <= 30
    store.close(1.0)


def test_back_references_of_gateways_name_keys_that_are_there(loaded: Loaded) -> None:
    """What the verification before a deletion asks with: the bucket and key of a back-reference."""
    loaded.load("buckets")
    row = next(row for row in loaded.load("objects") if row.get("manifest"))
    backref = BackRef(UUID(row["bucket_id"]), row["mtime"] * 1_000_000, 0, row["key"])
    (found,) = CassandraManifests(loaded.ring).of_keys([ObjectKey(backref.bucket_id, backref.key)])
    assert base64.b64decode(row["manifest"]) in found
