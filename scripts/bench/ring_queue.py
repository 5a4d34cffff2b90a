"""The gc queue of a region on a ring, filled and looked at by the bare driver: rows as a Strata gateway writes them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from cassandra.query import BatchStatement, BatchType
from ring_ground import KEYSPACE, Ground

from strata_daemon.domain.sharding import GC_SHARDS, gc_shard

CLUSTER = "default"
UNKNOWN_CLUSTER = "elsewhere"
CHUNKS_A_CALL = 50  # share one enqueued_at, as one call of a gateway's
ROWS_A_BATCH = 100
IN_FLIGHT = 64
# A read over 100,000 tombstones is refused: the one partition of gc_queue is looked at in slices of so many rows.
ROWS_A_LOOK = 20_000

INSERTS = {
    "gc_entries_by_cluster": "cluster, region, enqueued_at, oid, pool, namespace",
    "gc_queue": "region, enqueued_at, oid, pool, cluster, namespace",
    "gc_entries_v2": "region, shard_id, enqueued_at, oid, pool, cluster, namespace",
}
Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """Entries of one region and cluster, enqueued from `start_ms` on, `CHUNKS_A_CALL` of them in each millisecond."""

    region: str
    cluster: str
    start_ms: int
    oids: Sequence[str]
    pool: str = "data"

    @property
    def end_ms(self) -> int:
        return self.start_ms + len(self.oids) // CHUNKS_A_CALL + 1

    def entries(self) -> Iterator[tuple[int, str]]:
        for number, oid in enumerate(self.oids):
            yield self.start_ms + number // CHUNKS_A_CALL, oid


def names(count: int) -> list[str]:
    return [f"{uuid4()}.0000" for _ in range(count)]


def hours_ago_ms(hours: float) -> int:
    return int((time.time() - hours * 3600) * 1000)


def fill(ground: Ground, region: str, count: int, start_ms: int, cluster: str = CLUSTER) -> Fill:
    """Queue `count` chunks that have no file."""
    made = Fill(region, cluster, start_ms, names(count))
    write(ground, made)
    return made


def write(ground: Ground, made: Fill) -> None:
    """Into all three tables, in unlogged batches of one partition."""
    rows: dict[str, defaultdict[Values, list[Values]]] = {table: defaultdict(list) for table in INSERTS}
    for at_ms, oid in made.entries():
        shard, region, cluster, pool = gc_shard(oid), made.region, made.cluster, made.pool
        rows["gc_entries_by_cluster"][cluster,].append((cluster, region, at_ms, oid, pool, ""))
        rows["gc_queue"][region,].append((region, at_ms, oid, pool, cluster, ""))
        rows["gc_entries_v2"][region, shard].append((region, shard, at_ms, oid, pool, cluster, ""))
    for table, partitions in rows.items():
        columns = INSERTS[table]
        marks = ", ".join("?" * len(columns.split(",")))
        insert = ground.session.prepare(f"INSERT INTO {KEYSPACE}.{table} ({columns}) VALUES ({marks})")
        batches = [
            (_batch(insert, values[start : start + ROWS_A_BATCH]), ())
            for values in partitions.values()
            for start in range(0, len(values), ROWS_A_BATCH)
        ]
        ground.gather(batches, IN_FLIGHT)


def left(ground: Ground, made: Fill) -> dict[str, int]:
    """How many of the entries' rows each table still holds."""
    step_ms = ROWS_A_LOOK // CHUNKS_A_CALL
    slices = [(at, min(at + step_ms, made.end_ms)) for at in range(made.start_ms, made.end_ms, step_ms)]
    between = "enqueued_at >= ? AND enqueued_at < ?"
    by_cluster = f"gc_entries_by_cluster WHERE cluster = ? AND region = ? AND {between}"
    shards = range(GC_SHARDS) if len(made.oids) >= GC_SHARDS else sorted({gc_shard(oid) for oid in made.oids})
    looks: list[tuple[str, str, list[Values]]] = [
        (
            "gc_entries_v2",
            f"gc_entries_v2 WHERE region = ? AND shard_id = ? AND {between}",
            [(made.region, shard, made.start_ms, made.end_ms) for shard in shards],
        ),
        ("gc_entries_by_cluster", by_cluster, [(made.cluster, made.region, *each) for each in slices]),
        ("gc_queue", f"gc_queue WHERE region = ? AND {between}", [(made.region, *each) for each in slices]),
    ]
    found = {}
    for table, where, values in looks:
        count = ground.session.prepare(f"SELECT count(*) FROM {KEYSPACE}.{where}")
        answers = ground.gather([(count, each) for each in values], IN_FLIGHT)
        found[table] = sum(rows.one()[0] for rows in answers)
    return found


def _batch(insert: Any, values: Sequence[Values]) -> BatchStatement:
    made = BatchStatement(batch_type=BatchType.UNLOGGED)
    for row in values:
        made.add(insert, row)
    return made
