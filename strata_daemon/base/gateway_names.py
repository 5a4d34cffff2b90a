"""Settings that Strata's gateways read and this daemon does not: a shared environment or file must not raise warnings.

Families that the gateways own whole are prefixes; names beside ours are listed one by one, so that a misspelt one of
ours is still noticed. Source: Strata's internal/config and its reference of STRATA_* variables.
"""

from __future__ import annotations

FAMILIES = (
    "STRATA_ACCESS_LOG_",
    "STRATA_ADMIN_",
    "STRATA_ALERTMANAGER_",
    "STRATA_AUDIT_",
    "STRATA_AUTH_",
    "STRATA_BUCKETSTATS_",
    "STRATA_CHUNK_",
    "STRATA_CLUSTER_",
    "STRATA_CONSOLE_",
    "STRATA_HTTP_",
    "STRATA_INVENTORY_",
    "STRATA_JWT_",
    "STRATA_KMS_",
    "STRATA_LIFECYCLE_",
    "STRATA_MANIFEST_",
    "STRATA_NOTIFY_",
    "STRATA_OTEL_",
    "STRATA_PPROF_",
    "STRATA_PROMETHEUS_",
    "STRATA_PROM_",
    "STRATA_QUOTA_",
    "STRATA_RADOS_",
    "STRATA_RATE_LIMIT_",
    "STRATA_REBALANCE_",
    "STRATA_RECONCILE_",
    "STRATA_REPLICATOR_",
    "STRATA_RESHARD_",
    "STRATA_S3_",
    "STRATA_SSE_",
    "STRATA_STORAGE_",
    "STRATA_TEST_",
    "STRATA_TIKV_",
    "STRATA_TLS_",
    "STRATA_USAGE_ROLLUP_",
)

NAMES = frozenset(
    {
        "STRATA_BUCKET_SHARDS",
        "STRATA_CASSANDRA_LIST_CONCURRENCY",
        "STRATA_CASSANDRA_SLOW_MS",
        "STRATA_DEK_CACHE_TTL",
        "STRATA_DRAIN_STRICT",
        "STRATA_GC_METRICS_LISTEN",
        "STRATA_KEY_MAX_AGE",
        "STRATA_LISTEN",
        "STRATA_MFA_SECRETS",
        "STRATA_STATIC_CREDENTIALS",
        "STRATA_STS_DURATION",
        "STRATA_TRUSTED_PROXIES",
        "STRATA_VERSION",
        "STRATA_VHOST_PATTERN",
    }
)

FILE_KEYS = (
    "access_log",
    "admin_listen",
    "audit_log",
    "auth",
    "bucket_stats",
    "cassandra.list_concurrency",
    "cassandra.slow_ms",
    "chunk_crc_verify",
    "cluster",
    "console",
    "default_bucket_shards",
    "gc.metrics_listen",
    "http",
    "jwt",
    "kms",
    "lifecycle",
    "listen",
    "manifest",
    "mfa",
    "otel",
    "pprof",
    "prometheus",
    "rados",
    "rate_limit",
    "s3",
    "sse",
    "tikv",
    "tls",
    "trusted_proxies",
    "vhost",
    "workers.access_log",
    "workers.audit_export",
    "workers.gc.metrics_listen",
    "workers.inventory",
    "workers.lifecycle",
    "workers.manifest_rewriter",
    "workers.notify",
    "workers.quota_reconcile",
    "workers.rebalance",
    "workers.reconcile",
    "workers.replicator",
    "workers.reshard",
    "workers.usage_rollup",
)


def is_gateway_variable(name: str) -> bool:
    return name in NAMES or name.startswith(FAMILIES)


def is_gateway_key(key: str) -> bool:
    """Whether a key of the file, written with dots, is one of the gateways' or lies in one of their tables."""
    return any(key == known or key.startswith(f"{known}.") for known in FILE_KEYS)
