"""Floor: a bare driver loop of what a gc drain on a ring sends. Reads the 1,024 partitions of a region, then deletes
what was read from the three tables; no lease, no chunk, no repeat.

    ring_drain.py HOSTS DATA_CENTRE KEYSPACE REGION BEFORE_MS IN_FLIGHT STYLE

STYLE: `in` deletes by one statement with IN a partition, `batch` by one unlogged batch of single deletes; of the
mirrors up to 500 rows at once. Says how many rows there were and how long it took from the first read to the last ack.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cassandra.concurrent import execute_concurrent
from cassandra.query import BatchStatement, BatchType
from ring_driver import LEVEL, connect, prepare, say

SHARDS = 1024
ROWS_A_READ = 500
ROWS_AN_ACK = 500
START = (-(2**62), "")

READ = """
    SELECT toUnixTimestamp(enqueued_at), oid, cluster, pool, namespace, WRITETIME(pool) FROM {}.gc_entries_v2
    WHERE region = ? AND shard_id = ? AND (enqueued_at, oid) > (?, ?) AND enqueued_at <= ? LIMIT ?
"""
# Table, columns of the partition, columns of a row within it.
TABLES = (
    ("gc_entries_v2", ("region", "shard_id"), ("enqueued_at", "oid")),
    ("gc_entries_by_cluster", ("cluster",), ("region", "enqueued_at", "oid")),
    ("gc_queue", ("region",), ("enqueued_at", "oid")),
)
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Acks:
    """The deletes of one table. `style`: `in` or `batch`."""

    prepared: Any
    style: str

    def of(self, partition: Row, rows: Sequence[Row], stamp: int) -> Any:
        if self.style == "in":
            return self.prepared.bind((stamp, *partition, list(rows)))
        made = BatchStatement(batch_type=BatchType.UNLOGGED, consistency_level=LEVEL)
        for row in rows:
            made.add(self.prepared, (stamp, *partition, *row))
        return made


def acks(session: Any, keyspace: str, table: tuple[str, Row, Row], style: str) -> Acks:
    name, partition, row = table
    where = [f"{column} = ?" for column in partition]
    where += [f"({', '.join(row)}) IN ?"] if style == "in" else [f"{column} = ?" for column in row]
    cql = f"DELETE FROM {keyspace}.{name} USING TIMESTAMP ? WHERE {' AND '.join(where)}"
    return Acks(prepare(session, cql), style)


@dataclass(frozen=True, slots=True)
class Loop:
    """One drain of a region. Everything is prepared when it is made."""

    session: Any
    read: Any
    acks: Sequence[Acks]
    in_flight: int

    def drain(self, region: str, before_ms: int) -> tuple[int, float]:
        """The number of entries, and the seconds of the reads."""
        began = time.monotonic()
        by_shard = self._read(region, before_ms)
        read_s = time.monotonic() - began
        stamp = int(time.time() * 1_000_000)
        self._send([request for each in self._groups(region, by_shard) for request in self._acks(*each, stamp)])
        return sum(map(len, by_shard.values())), read_s

    def _read(self, region: str, before_ms: int) -> Mapping[int, Sequence[Row]]:
        rows: defaultdict[int, list[Row]] = defaultdict(list)
        after: dict[int, Row] = dict.fromkeys(range(SHARDS), START)
        while after:
            requests = [self.read.bind((region, s, *key, before_ms, ROWS_A_READ)) for s, key in after.items()]
            answers = dict(zip(after, self._send(requests), strict=True))
            for shard, page in answers.items():
                rows[shard] += page
            after = {s: page[-1][:2] for s, page in answers.items() if len(page) == ROWS_A_READ}
        return rows

    def _groups(
        self, region: str, by_shard: Mapping[int, Sequence[Row]]
    ) -> Iterator[tuple[Acks, Mapping[Row, Sequence[Row]]]]:
        """For each table the rows of each partition."""
        queue, by_cluster, old = self.acks
        yield queue, {(region, shard): [row[:2] for row in rows] for shard, rows in by_shard.items()}
        clusters: defaultdict[Row, list[Row]] = defaultdict(list)
        for rows in by_shard.values():
            for at_ms, oid, cluster, *_ in rows:
                clusters[cluster,].append((region, at_ms, oid))
        yield by_cluster, clusters
        yield old, {(region,): [row[:2] for rows in by_shard.values() for row in rows]}

    def _acks(self, table: Acks, partitions: Mapping[Row, Sequence[Row]], stamp: int) -> Iterator[Any]:
        for partition, rows in partitions.items():
            for start in range(0, len(rows), ROWS_AN_ACK):
                yield table.of(partition, rows[start : start + ROWS_AN_ACK], stamp)

    def _send(self, requests: Sequence[Any]) -> list[list[Row]]:
        answers = execute_concurrent(self.session, [(request, ()) for request in requests], concurrency=self.in_flight)
        return [list(rows or ()) for _, rows in answers]


def main(hosts: str, data_centre: str, keyspace: str, region: str, before_ms: int, in_flight: int, style: str) -> None:
    session = connect(hosts, data_centre)
    read = prepare(session, READ.format(keyspace))
    loop = Loop(session, read, [acks(session, keyspace, table, style) for table in TABLES], in_flight)
    began = time.monotonic()
    count, read_s = loop.drain(region, before_ms)
    say("drained", count=count, took_s=time.monotonic() - began, read_s=read_s)
    session.cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6]), sys.argv[7])
