"""Every statement that is prepared, in one place: its table, its levels, and whether it is conditional.

`{strata}` is Strata's keyspace, `{own}` ours. Levels are LOCAL_QUORUM and LOCAL_SERIAL throughout, stated with each
request and never left to a default (strata-keyspace.md 1.3, faults.md 34). Plain writes leave their timestamp to the
server but for those that say USING TIMESTAMP (design.md section 4, wall clocks).
"""

from __future__ import annotations

from dataclasses import dataclass

from cassandra import ConsistencyLevel

LEVEL = ConsistencyLevel.LOCAL_QUORUM
SERIAL_LEVEL = ConsistencyLevel.LOCAL_SERIAL
IN_MAX = 100  # partitions of one IN: one node coordinates them all
SIGNAL_TTL_S = 7 * 86_400  # so that rows of nodes that are gone for good do not gather


@dataclass(frozen=True, slots=True)
class Statement:
    """`is_conditional`: decided by Paxos at LOCAL_SERIAL; repeating it is the only way to settle an unknown outcome.
    Every other statement may be repeated without harm."""

    table: str
    cql: str
    is_conditional: bool = False


# -- leases (strata-keyspace.md 1.3, 1.4)

INSERT_LEASE = Statement(
    "worker_locks",
    "INSERT INTO {strata}.worker_locks (name, holder) VALUES (?, ?) IF NOT EXISTS USING TTL ?",
    is_conditional=True,
)
RENEW_LEASE = Statement(
    "worker_locks",
    "UPDATE {strata}.worker_locks USING TTL ? SET holder = ? WHERE name = ? IF holder = ?",
    is_conditional=True,
)
# Never an update to null: the insert's row marker would refuse everybody until it runs out.
RELEASE_LEASE = Statement(
    "worker_locks", "DELETE FROM {strata}.worker_locks WHERE name = ? IF holder = ?", is_conditional=True
)
READ_LEASES = Statement("worker_locks", "SELECT name, holder, TTL(holder) FROM {strata}.worker_locks WHERE name IN ?")
DRAW_TOKEN = Statement(
    "lease_tokens",
    "UPDATE {own}.lease_tokens SET fence = ?, holder = ?, drawn_at = ? WHERE name = ? IF fence = ?",
    is_conditional=True,
)
READ_TOKENS = Statement("lease_tokens", "SELECT name, fence, holder, drawn_at FROM {own}.lease_tokens WHERE name IN ?")
SCAN_LEASES = Statement("worker_locks", "SELECT name, holder, TTL(holder) FROM {strata}.worker_locks")
WRITE_SIGNAL = Statement(
    "signals",
    f"INSERT INTO {{own}}.signals (scope, node, seq, releases) VALUES (?, ?, ?, ?) USING TTL {SIGNAL_TTL_S}",
)
READ_SIGNALS = Statement("signals", "SELECT node, seq FROM {own}.signals WHERE scope = ?")
READ_RELEASES = Statement("signals", "SELECT node, seq, releases FROM {own}.signals WHERE scope = ? AND node IN ?")
NOTE_BEGIN = Statement("terms", "INSERT INTO {own}.terms (lease, fence, holder, node, began_at) VALUES (?, ?, ?, ?, ?)")
NOTE_END = Statement(
    "terms", "INSERT INTO {own}.terms (lease, fence, holder, node, ended_at, reason) VALUES (?, ?, ?, ?, ?, ?)"
)

# -- what nodes run with, to be compared

WRITE_SETTINGS = Statement(
    "node_settings",
    "INSERT INTO {own}.node_settings (scope, node, started_at, gc_shards) VALUES (?, ?, ?, ?) USING TTL ?",
)
READ_SETTINGS = Statement(
    "node_settings", "SELECT node, started_at, gc_shards FROM {own}.node_settings WHERE scope = ?"
)

# -- nodes (strata-keyspace.md 1.2, cluster_nodes)

WRITE_NODE = Statement(
    "cluster_nodes",
    "INSERT INTO {strata}.cluster_nodes (node_id, address, version, started_at, workers, leader_for, last_heartbeat)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?",
)
READ_NODES = Statement(
    "cluster_nodes",
    "SELECT node_id, address, version, started_at, workers, leader_for, last_heartbeat, TTL(address)"
    " FROM {strata}.cluster_nodes",
)
READ_NODE = Statement("cluster_nodes", "SELECT started_at FROM {strata}.cluster_nodes WHERE node_id = ?")
REMOVE_NODE = Statement("cluster_nodes", "DELETE FROM {strata}.cluster_nodes WHERE node_id = ?")

# -- clocks

READ_CLOCK = Statement("system.local", "SELECT toUnixTimestamp(now()) FROM system.local")

# -- objects, as far as gc asks (strata-keyspace.md 1.2)

READ_MANIFESTS = Statement(
    "objects", "SELECT manifest FROM {strata}.objects WHERE bucket_id = ? AND shard = ? AND key = ?"
)
READ_BUCKET_LAYOUTS = Statement("buckets", "SELECT id, shard_count, shard_count_target FROM {strata}.buckets")
READ_BUCKET_LAYOUTS_OLD = Statement("buckets", "SELECT id, shard_count FROM {strata}.buckets")

# -- the gc queue (strata-keyspace.md 1.2, 1.3). Timestamps travel as milliseconds: any value that somebody wrote can be
# read, also one that is no date. A delete of several rows of a partition is one statement and one mutation.

SHARD_FIRSTS = Statement(
    "gc_entries_v2",
    "SELECT shard_id, toUnixTimestamp(enqueued_at), oid FROM {strata}.gc_entries_v2"
    " WHERE region = ? AND shard_id IN ? AND enqueued_at > ? PER PARTITION LIMIT ?",
)
READ_SHARD = Statement(
    "gc_entries_v2",
    "SELECT toUnixTimestamp(enqueued_at), oid, cluster, pool, namespace, WRITETIME(pool) FROM {strata}.gc_entries_v2"
    " WHERE region = ? AND shard_id = ? AND (enqueued_at, oid) > (?, ?) AND enqueued_at <= ? LIMIT ?",
)
COUNT_SHARD = Statement(
    "gc_entries_v2",
    "SELECT toUnixTimestamp(enqueued_at), oid FROM {strata}.gc_entries_v2"
    " WHERE region = ? AND shard_id = ? AND enqueued_at > ? LIMIT ?",
)
SHARDS_IN_USE = Statement("gc_entries_v2", "SELECT DISTINCT region, shard_id FROM {strata}.gc_entries_v2")
FIND_ENTRIES = Statement(
    "gc_entries_v2",
    "SELECT toUnixTimestamp(enqueued_at), oid FROM {strata}.gc_entries_v2"
    " WHERE region = ? AND shard_id = ? AND (enqueued_at, oid) IN ?",
)
ENQUEUE = Statement(
    "gc_entries_v2",
    "INSERT INTO {strata}.gc_entries_v2 (region, shard_id, enqueued_at, oid, pool, cluster, namespace)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)",
)
ENQUEUE_BY_CLUSTER = Statement(
    "gc_entries_by_cluster",
    "INSERT INTO {strata}.gc_entries_by_cluster (cluster, region, enqueued_at, oid, pool, namespace)"
    " VALUES (?, ?, ?, ?, ?, ?)",
)
ENQUEUE_OLD = Statement(
    "gc_queue",
    "INSERT INTO {strata}.gc_queue (region, enqueued_at, oid, pool, cluster, namespace) VALUES (?, ?, ?, ?, ?, ?)",
)
# What a mirror has and the queue lacks, with the mirror's own timestamp: a row that was acked stays gone.
RESTORE = Statement(
    "gc_entries_v2",
    "INSERT INTO {strata}.gc_entries_v2 (region, shard_id, enqueued_at, oid, pool, cluster, namespace)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
)
ACK = Statement(
    "gc_entries_v2",
    "DELETE FROM {strata}.gc_entries_v2 USING TIMESTAMP ?"
    " WHERE region = ? AND shard_id = ? AND (enqueued_at, oid) IN ?",
)
ACK_BY_CLUSTER = Statement(
    "gc_entries_by_cluster",
    "DELETE FROM {strata}.gc_entries_by_cluster USING TIMESTAMP ?"
    " WHERE cluster = ? AND (region, enqueued_at, oid) IN ?",
)
ACK_OLD = Statement(
    "gc_queue", "DELETE FROM {strata}.gc_queue USING TIMESTAMP ? WHERE region = ? AND (enqueued_at, oid) IN ?"
)
READ_OLD = Statement(
    "gc_queue",
    "SELECT toUnixTimestamp(enqueued_at), oid, cluster, pool, namespace, WRITETIME(pool) FROM {strata}.gc_queue"
    " WHERE region = ? AND (enqueued_at, oid) > (?, ?) AND enqueued_at <= ? LIMIT ?",
)
READ_BY_CLUSTER = Statement(
    "gc_entries_by_cluster",
    "SELECT toUnixTimestamp(enqueued_at), oid, cluster, pool, namespace, WRITETIME(pool)"
    " FROM {strata}.gc_entries_by_cluster WHERE cluster = ? AND region = ? AND (enqueued_at, oid) > (?, ?)"
    " AND enqueued_at <= ? LIMIT ?",
)
CLUSTERS_IN_USE = Statement("gc_entries_by_cluster", "SELECT DISTINCT cluster FROM {strata}.gc_entries_by_cluster")

# -- gc rows of our own

SET_ASIDE = Statement(
    "gc_set_aside",
    "INSERT INTO {own}.gc_set_aside (region, part, shard_id, enqueued_at, oid, cluster, pool, namespace, reason, tries,"
    " retry_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
)
READ_SET_ASIDE = Statement(
    "gc_set_aside",
    "SELECT shard_id, toUnixTimestamp(enqueued_at), oid, cluster, pool, namespace, reason, tries,"
    " toUnixTimestamp(retry_at) FROM {own}.gc_set_aside WHERE region = ? AND part = ? AND shard_id IN ?",
)
FORGET_SET_ASIDE = Statement(
    "gc_set_aside",
    "DELETE FROM {own}.gc_set_aside WHERE region = ? AND part = ? AND shard_id = ? AND (enqueued_at, oid) IN ?",
)
WRITE_DEPTH = Statement(
    "gc_depth",
    "INSERT INTO {own}.gc_depth (region, shard_id, entry_count, is_at_least, oldest_at, set_aside, counted_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)",
)
READ_DEPTH = Statement(
    "gc_depth",
    "SELECT shard_id, entry_count, is_at_least, toUnixTimestamp(oldest_at), set_aside, toUnixTimestamp(counted_at)"
    " FROM {own}.gc_depth WHERE region = ?",
)
