"""What the floors on a ring share: a bare connection with the daemon's levels and policies. Nothing is repeated."""

from __future__ import annotations

import json
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import DCAwareRoundRobinPolicy, FallthroughRetryPolicy, TokenAwarePolicy
from cassandra.query import tuple_factory

LEVEL, SERIAL_LEVEL = ConsistencyLevel.LOCAL_QUORUM, ConsistencyLevel.LOCAL_SERIAL
HEARTBEAT_S = 2  # the daemon's


def connect(hosts: str, data_centre: str) -> Any:
    """A session with the nodes of `host:port,host:port`."""
    points = [host.rpartition(":") for host in hosts.split(",")]
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=data_centre), shuffle_replicas=False),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=LEVEL,
        serial_consistency_level=SERIAL_LEVEL,
        request_timeout=10.0,
        row_factory=tuple_factory,
    )
    cluster = Cluster(
        [host for host, _, _ in points],
        port=int(points[0][2]),
        protocol_version=4,
        compression=False,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=HEARTBEAT_S,
        monitor_reporting_enabled=False,
    )
    session = cluster.connect()
    session.use_client_timestamp = False
    return session


def prepare(session: Any, cql: str) -> Any:
    made = session.prepare(cql)
    made.consistency_level = LEVEL
    made.serial_consistency_level = SERIAL_LEVEL
    return made


def say(msg: str, **fields: object) -> None:
    print(json.dumps({"msg": msg, **fields}), flush=True)
