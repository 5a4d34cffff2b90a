"""The tables of Strata's keyspace as a gateway makes them, in statements of our own (strata-keyspace.md 1.2, 6).

Made only for labs and tests, by `schema apply --with-strata`; a start compares those that the daemon needs and creates
nothing here. Pure text. `later` names the columns that Strata adds by ALTER, which an old keyspace may lack.
"""

from __future__ import annotations

from strata_daemon.stores.cassandra.schema import Table, create_keyspace, table

# By name, the fields of each.
TYPES = {"objectlock_cfg": "enabled boolean, mode text, retain_days int"}

LEASES_AND_NODES = (
    table("worker_locks", "name text, holder text", partition="name"),
    table(
        "cluster_nodes",
        "node_id text, address text, version text, started_at timestamp, workers set<text>, leader_for set<text>,"
        " last_heartbeat timestamp",
        partition="node_id",
        options=("default_time_to_live = 30",),
    ),
    table(
        "cluster_state",
        "cluster_id text, state text, mode text, weight int",
        partition="cluster_id",
        later="mode weight",
    ),
)

GC = (
    table(
        "gc_entries_v2",
        "region text, shard_id int, enqueued_at timestamp, oid text, pool text, cluster text, namespace text",
        partition="region, shard_id",
        clustering="enqueued_at, oid",
    ),
    table(
        "gc_entries_by_cluster",
        "cluster text, region text, enqueued_at timestamp, oid text, pool text, namespace text",
        partition="cluster",
        clustering="region, enqueued_at, oid",
    ),
    table(
        "gc_queue",
        "region text, enqueued_at timestamp, oid text, pool text, cluster text, namespace text",
        partition="region",
        clustering="enqueued_at, oid",
    ),
)

BUCKETS = (
    table(
        "buckets",
        "name text, id uuid, owner_id text, created_at timestamp, versioning text, default_class text,"
        " shard_count int, objectlock frozen<objectlock_cfg>, tags map<text, text>, policy text, acl text,"
        " object_lock_enabled boolean, region text, mfa_delete text, shard_count_target int, backend_presign boolean,"
        " placement_mode text, ec_policy text, signing_wrapped_dek blob, signing_key_id text,"
        " signing_key_created_at timestamp",
        partition="name",
        later="object_lock_enabled region mfa_delete shard_count_target backend_presign placement_mode ec_policy"
        " signing_wrapped_dek signing_key_id signing_key_created_at",
    ),
    # One row a bucket, with a document as the client or the gateway wrote it.
    *(
        table(name, f"bucket_id uuid, {column} blob", partition="bucket_id")
        for name, column in (
            ("bucket_acl_grants", "grants"),
            ("bucket_cors", "rules"),
            ("bucket_encryption", "config"),
            ("bucket_lifecycle", "rules"),
            ("bucket_logging", "config"),
            ("bucket_notification", "config"),
            ("bucket_object_lock", "config"),
            ("bucket_ownership_controls", "config"),
            ("bucket_placement", "policy"),
            ("bucket_policy", "document"),
            ("bucket_public_access_block", "config"),
            ("bucket_quota", "config"),
            ("bucket_replication", "config"),
            ("bucket_tagging", "config"),
            ("bucket_website", "config"),
        )
    ),
    table(
        "bucket_inventory_configs",
        "bucket_id uuid, config_id text, config blob",
        partition="bucket_id",
        clustering="config_id",
    ),
    table(
        "bucket_stats",
        "bucket_id uuid, used_bytes bigint, used_objects bigint, updated_at timestamp, owner text",
        partition="bucket_id",
        later="owner",
    ),
    table(
        "access_points",
        "name text, bucket text, bucket_id uuid, alias text, network_origin text, vpc_id text, policy blob,"
        " public_access_block blob, created_at timestamp",
        partition="name",
    ),
)

OBJECTS = (
    table(
        "objects",
        "bucket_id uuid, shard int, key text, version_id timeuuid, is_latest boolean, is_delete_marker boolean,"
        " size bigint, etag text, content_type text, storage_class text, mtime timestamp, manifest blob,"
        " user_meta map<text, text>, tags map<text, text>, retain_until timestamp, legal_hold boolean,"
        " retain_mode text, grants blob, checksums map<text, text>, sse text, ssec_key_md5 text, restore_status text,"
        " cache_control text, expires text, parts_count int, sse_key blob, sse_key_id text, replication_status text,"
        " part_sizes list<bigint>, checksum_type text, is_null boolean, quarantine_reason text",
        partition="bucket_id, shard",
        clustering="key, version_id DESC",
        options=(
            "compaction = {'class': 'LeveledCompactionStrategy', 'tombstone_threshold': '0.1',"
            " 'unchecked_tombstone_compaction': 'true'}",
        ),
        later="retain_mode grants checksums sse ssec_key_md5 restore_status cache_control expires parts_count sse_key"
        " sse_key_id replication_status part_sizes checksum_type is_null quarantine_reason",
    ),
    table(
        "multipart_uploads",
        "bucket_id uuid, upload_id timeuuid, key text, status text, storage_class text, content_type text,"
        " initiated_at timestamp, sse text, user_meta map<text, text>, cache_control text, expires text,"
        " checksum_algorithm text, sse_key blob, sse_key_id text, checksum_type text, cluster text",
        partition="bucket_id",
        clustering="upload_id",
        later="sse user_meta cache_control expires checksum_algorithm sse_key sse_key_id checksum_type cluster",
    ),
    table(
        "multipart_uploads_by_cluster",
        "cluster text, bucket_id uuid, upload_id timeuuid, key text",
        partition="cluster",
        clustering="bucket_id, upload_id",
    ),
    table(
        "multipart_parts",
        "bucket_id uuid, upload_id timeuuid, part_number int, etag text, size bigint, mtime timestamp, manifest blob,"
        " checksums map<text, text>",
        partition="bucket_id, upload_id",
        clustering="part_number",
        later="checksums",
    ),
    table(
        "multipart_completions",
        "bucket_id uuid, upload_id timeuuid, key text, etag text, version_id text, body blob, headers map<text, text>,"
        " completed_at timestamp",
        partition="bucket_id",
        clustering="upload_id",
    ),
)

LOGS_AND_QUEUES = (
    table(
        "audit_log",
        "bucket_id uuid, day timestamp, event_id timeuuid, ts timestamp, principal text, action text, resource text,"
        " result text, request_id text, source_ip text, bucket_name text, user_agent text, total_time_ms int",
        partition="bucket_id, day",
        clustering="event_id DESC",
        later="user_agent total_time_ms",
    ),
    table(
        "access_log_buffer",
        "bucket_id uuid, hour timestamp, event_id timeuuid, ts timestamp, request_id text, principal text,"
        " source_ip text, op text, object_key text, version_id text, status int, bytes_sent bigint,"
        " object_size bigint, total_time_ms int, turn_around_ms int, referrer text, user_agent text",
        partition="bucket_id, hour",
        clustering="event_id",
    ),
    table(
        "notify_queue",
        "bucket_id uuid, hour timestamp, event_id timeuuid, bucket_name text, object_key text, event_name text,"
        " event_time timestamp, config_id text, target_type text, target_arn text, payload blob",
        partition="bucket_id, hour",
        clustering="event_id",
    ),
    table(
        "notify_dlq",
        "bucket_id uuid, day timestamp, event_id timeuuid, bucket_name text, object_key text, event_name text,"
        " event_time timestamp, config_id text, target_type text, target_arn text, payload blob, attempts int,"
        " reason text, enqueued_at timestamp",
        partition="bucket_id, day",
        clustering="event_id",
    ),
    table(
        "replication_queue",
        "bucket_id uuid, day timestamp, event_id timeuuid, bucket_name text, object_key text, version_id text,"
        " event_name text, event_time timestamp, rule_id text, destination_bucket text, destination_endpoint text,"
        " storage_class text",
        partition="bucket_id, day",
        clustering="event_id",
    ),
)

JOBS = (
    table(
        "admin_jobs",
        "id text, kind text, bucket text, state text, message text, deleted bigint, started_at timestamp,"
        " updated_at timestamp, finished_at timestamp",
        partition="id",
    ),
    table(
        "reconcile_jobs",
        "id text, cluster text, pool text, namespace text, bucket text, policy text, cursor text, state text,"
        " message text, scanned bigint, healthy bigint, absent_backref bigint, errors bigint, orphans_found bigint,"
        " orphans_report bigint, orphans_gc bigint, orphans_restore bigint, manifests_scanned bigint,"
        " dangling_found bigint, dangling_report bigint, dangling_quarantine bigint, dangling_delete bigint,"
        " created_at timestamp, updated_at timestamp",
        partition="id",
    ),
    table(
        "reshard_jobs",
        "bucket_id uuid, bucket_name text, source int, target int, last_key text, done boolean, created_at timestamp,"
        " updated_at timestamp",
        partition="bucket_id",
    ),
    table(
        "rewrap_progress",
        "bucket_id uuid, target_id text, last_key text, complete boolean, updated_at timestamp",
        partition="bucket_id",
    ),
)

USERS_AND_USAGE = (
    table(
        "access_keys",
        "access_key text, secret_key text, owner text, user_name text, created_at timestamp, disabled boolean",
        partition="access_key",
    ),
    table("iam_users", "user_name text, user_id text, path text, created_at timestamp", partition="user_name"),
    table("iam_access_keys_by_user", "user_name text, access_key text", partition="user_name", clustering="access_key"),
    table(
        "iam_managed_policies",
        "arn text, name text, path text, description text, document blob, created_at timestamp, updated_at timestamp",
        partition="arn",
    ),
    table(
        "iam_user_policies",
        "user_name text, policy_arn text, attached_at timestamp",
        partition="user_name",
        clustering="policy_arn",
    ),
    table(
        "iam_policy_attachments",
        "policy_arn text, user_name text, attached_at timestamp",
        partition="policy_arn",
        clustering="user_name",
    ),
    table("user_quota", "user_name text, config blob", partition="user_name"),
    table(
        "user_stats",
        "owner text, used_bytes bigint, used_objects bigint, bucket_count bigint, updated_at timestamp",
        partition="owner",
    ),
    table(
        "usage_aggregates",
        "bucket_id uuid, storage_class text, day date, byte_seconds bigint, object_count_avg bigint,"
        " object_count_max bigint, computed_at timestamp",
        partition="bucket_id, storage_class",
        clustering="day",
    ),
    table(
        "usage_aggregates_classes",
        "bucket_id uuid, storage_class text",
        partition="bucket_id",
        clustering="storage_class",
    ),
)

STRATA_TABLES: tuple[Table, ...] = (
    *LEASES_AND_NODES,
    *GC,
    *BUCKETS,
    *OBJECTS,
    *LOGS_AND_QUEUES,
    *JOBS,
    *USERS_AND_USAGE,
)
BY_NAME = {each.name: each for each in STRATA_TABLES}

# What this daemon reads or writes there; without these it does not start.
WRITTEN = ("worker_locks", "cluster_nodes", "gc_entries_v2", "gc_entries_by_cluster", "gc_queue")
READ = ("buckets", "objects")
NEEDED: tuple[Table, ...] = tuple(BY_NAME[name] for name in WRITTEN + READ)


def create_type(keyspace: str, name: str) -> str:
    return f"CREATE TYPE IF NOT EXISTS {keyspace}.{name} ({TYPES[name]})"


def strata_statements(keyspace: str, replication: str) -> list[str]:
    """All that makes Strata's keyspace, in order; each may be repeated."""
    types = [create_type(keyspace, name) for name in TYPES]
    return [create_keyspace(keyspace, replication), *types, *(each.create(keyspace) for each in STRATA_TABLES)]
