"""The settings of the gc worker. Light to import: they are read before the worker's own code is."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict

from strata_daemon.base.knobs import Choice, Duration, Setting, Whole

WORKER = "gc"
INTERVAL_S = 30.0
GRACE_S = 300.0
BATCH_SIZE = 500


class GCSettings(BaseModel):
    """Bounds are those of strata-keyspace.md 1.8; a value outside is refused where Strata clamps or misbehaves
    (defects k and S12)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    interval_s: Annotated[
        float,
        Duration(0.01, 24 * 3600, zero=INTERVAL_S),
        Setting(
            "STRATA_GC_INTERVAL",
            "workers.gc.interval",
            "30s",
            "the pause between two gc passes",
            "Pause between two passes over the gc queue. The first pass follows the lease at once. 0 means 30s.",
        ),
    ] = INTERVAL_S
    grace_s: Annotated[
        float,
        Duration(0.001, 365 * 24 * 3600, zero=GRACE_S),
        Setting(
            "STRATA_GC_GRACE",
            "workers.gc.grace",
            "5m",
            "the grace of a queued chunk",
            "How long a chunk waits in the queue before it may be deleted, so that readers under way finish. "
            "0 means 5m: there is no gc without a grace.",
        ),
    ] = GRACE_S
    batch_size: Annotated[
        int,
        Whole(1, 10_000, zero=BATCH_SIZE),
        Setting(
            "STRATA_GC_BATCH_SIZE",
            "workers.gc.batch_size",
            BATCH_SIZE,
            "the size of a gc batch",
            "Entries that are read, deleted and acked together, 1 to 10000. 0 means 500.",
        ),
    ] = BATCH_SIZE
    concurrency: Annotated[
        int,
        Whole(1, 256),
        Setting(
            "STRATA_GC_CONCURRENCY",
            "workers.gc.concurrency",
            1,
            "the number of deletions at a time",
            "Deletions under way at a time in each shard, 1 to 256.",
        ),
    ] = 1
    shards: Annotated[
        int,
        Whole(1, 1024),
        Setting(
            "STRATA_GC_SHARDS",
            "workers.gc.shards",
            1,
            "the number of gc shards",
            "Leases that the queue is split over, 1 to 1024; all nodes of a store must use the same number.",
        ),
    ] = 1
    verify: Annotated[
        str,
        Choice(("off", "manifest")),
        Setting(
            "STRATA_GC_VERIFY",
            "workers.gc.verify",
            "manifest",
            "the verification before a deletion",
            "manifest: a chunk that a live manifest still names is not deleted but set aside (where the chunk tells "
            "its owner). off: what is queued is deleted.",
        ),
    ] = "manifest"
