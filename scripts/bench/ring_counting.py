"""What the nodes of a ring count: client requests, and conditional writes by the marks that Paxos leaves.

The requests are those of the whole ring: nobody but the daemon under test may use it meanwhile. Heartbeats of a driver
(OPTIONS) are no statements, so they are not in them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psutil
from ring_daemon import Daemon
from ring_ground import KEYSPACE, OWN_KEYSPACE, Ground

STATEMENTS = ("prepared_statements_executed", "regular_statements_executed")
OWN_STATEMENTS = 2  # of a count itself, on each node
CONDITIONAL_TABLES = ((KEYSPACE, "worker_locks"), (OWN_KEYSPACE, "lease_tokens"))


@dataclass(frozen=True, slots=True)
class Count:
    """At one instant. `frames`: all requests on the connections of the daemon, heartbeats included."""

    at: float
    statements: float
    frames: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Rates:
    """A second, between two counts."""

    statements: float
    frames: float

    @property
    def most(self) -> float:
        """What the daemon can have sent at most: others' statements are in the one, heartbeats in the other."""
        return min(self.statements, self.frames)


def rates(before: Count, after: Count, nodes: int) -> Rates:
    took_s = after.at - before.at
    frames = sum(number - before.frames.get(place, 0) for place, number in after.frames.items())
    own = nodes * OWN_STATEMENTS
    return Rates((after.statements - before.statements - own) / took_s, frames / took_s)


def count(ground: Ground, daemon: Daemon) -> Count:
    connections = psutil.Process(daemon.process.popen.pid).net_connections()
    ours = {(each.raddr.ip, each.laddr.port) for each in connections if each.raddr}
    statements, frames = 0.0, {}
    at = time.monotonic()
    for host in _hosts(ground):
        for row in ground.execute("SELECT port, request_count FROM system_views.clients", host=host):
            if (host.address, row.port) in ours:
                frames[host.address, row.port] = row.request_count
        for row in ground.execute("SELECT name, value FROM system_views.cql_metrics", host=host):
            statements += row.value if row.name in STATEMENTS else 0.0
    return Count(at, statements, frames)


def promises(ground: Ground) -> dict[tuple[str, UUID, bytes], tuple[Any, ...]]:
    """What each node promised for each lease and token. Every conditional write, refused ones too, and every serial
    read changes it on a majority of the nodes."""
    schema = ground.session.cluster.metadata.keyspaces
    tables = []
    for keyspace, table in CONDITIONAL_TABLES:
        assert table in schema[keyspace].tables
        cql = "SELECT id FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s"
        tables.append(ground.execute(cql, (keyspace, table)).one().id)
    found = {}
    for host in _hosts(ground):
        cql = "SELECT row_key, cf_id, in_progress_ballot, in_progress_read_ballot FROM system.paxos"
        for row in ground.execute(cql, host=host):
            if row.cf_id in tables:
                found[host.address, row.cf_id, row.row_key] = (row.in_progress_ballot, row.in_progress_read_ballot)
    return found


def touched(
    before: Mapping[tuple[str, UUID, bytes], object], after: Mapping[tuple[str, UUID, bytes], object]
) -> set[tuple[UUID, bytes]]:
    """The rows with a promise that is not as it was."""
    return {(table, key) for (host, table, key), made in after.items() if before.get((host, table, key)) != made}


def _hosts(ground: Ground) -> list[Any]:
    return [host for host in ground.session.cluster.metadata.all_hosts() if host.is_up]
