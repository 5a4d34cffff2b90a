"""The tables of `strata.db`, in Strata's shape where Strata has them (strata-keyspace.md 1.2)."""

from __future__ import annotations

from strata_daemon.stores.sqlite.database import Schema

SCHEMA = Schema(
    application_id=0x53747261,  # "Stra"
    version=1,
    statements=(
        """CREATE TABLE buckets (
            name TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL, versioning TEXT NOT NULL,
            shard_count INTEGER NOT NULL) WITHOUT ROWID""",
        """CREATE TABLE objects (
            bucket_id TEXT NOT NULL, key TEXT NOT NULL, version_id TEXT NOT NULL, shard INTEGER NOT NULL,
            is_null INTEGER NOT NULL, is_delete_marker INTEGER NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL,
            content_type TEXT NOT NULL, storage_class TEXT NOT NULL, mtime INTEGER NOT NULL, manifest BLOB NOT NULL,
            PRIMARY KEY (bucket_id, key, version_id)) WITHOUT ROWID""",
        """CREATE TABLE intents (
            id TEXT PRIMARY KEY, kind TEXT NOT NULL, writer TEXT NOT NULL, bucket_id TEXT NOT NULL, key TEXT NOT NULL,
            mtime INTEGER NOT NULL, chunks TEXT NOT NULL) WITHOUT ROWID""",
        """CREATE TABLE gc_entries (
            region TEXT NOT NULL, shard_id INTEGER NOT NULL, enqueued_at INTEGER NOT NULL, oid TEXT NOT NULL,
            cluster TEXT NOT NULL, pool TEXT NOT NULL, namespace TEXT NOT NULL,
            PRIMARY KEY (region, shard_id, enqueued_at, oid)) WITHOUT ROWID""",
        """CREATE TABLE gc_set_aside (
            region TEXT NOT NULL, shard_id INTEGER NOT NULL, enqueued_at INTEGER NOT NULL, oid TEXT NOT NULL,
            cluster TEXT NOT NULL, pool TEXT NOT NULL, namespace TEXT NOT NULL,
            reason TEXT NOT NULL, tries INTEGER NOT NULL, retry_at INTEGER NOT NULL,
            PRIMARY KEY (region, shard_id, enqueued_at, oid)) WITHOUT ROWID""",
        "CREATE INDEX gc_set_aside_due ON gc_set_aside (region, retry_at)",
        """CREATE TABLE nodes (
            node_id TEXT PRIMARY KEY, address TEXT NOT NULL, version TEXT NOT NULL, started_at INTEGER NOT NULL,
            workers TEXT NOT NULL, leader_for TEXT NOT NULL, last_heartbeat INTEGER NOT NULL,
            boot_id TEXT NOT NULL, expires_at REAL NOT NULL) WITHOUT ROWID""",
        "CREATE TABLE clusters (name TEXT PRIMARY KEY, marker TEXT NOT NULL) WITHOUT ROWID",
    ),
)
