"""Counters and histograms of one process, in a registry of its own (two daemons of a simulation share nothing).

Names are Strata's where it has them (strata-keyspace.md section 7); `strata_daemon_*` are ours. Gauges that show a
state are not here: they are computed from the snapshot at each scrape.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each counter that nobody reads


class Metrics:
    """What parts count. Every attribute is thread-safe and costs no lock of ours."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        reg = self.registry
        self.worker_iterations = Counter(
            "strata_worker_iteration_total", "Passes by outcome.", ["worker", "status"], registry=reg
        )
        self.worker_tick_s = Histogram(
            "strata_worker_tick_duration_seconds",
            "Duration of a pass.",
            ["worker"],
            buckets=[0.001 * 2**i for i in range(16)],
            registry=reg,
        )
        self.worker_panics = Counter(
            "strata_worker_panic_total", "Exceptions that ended a runner or a shard.", ["worker", "shard"], registry=reg
        )
        self.leader_events = Counter(
            "strata_worker_leader_events_total", "Leadership won and given up.", ["worker", "event"], registry=reg
        )
        self.gc_enqueued = Counter("strata_gc_enqueued_chunks_total", "Chunks queued for deletion.", registry=reg)
        self.gc_processed = Counter("strata_gc_processed_chunks_total", "Chunks deleted and acked.", registry=reg)
        self.gc_terminal_acks = Counter(
            "strata_gc_terminal_ack_total", "Entries acked because the chunk was absent.", ["reason"], registry=reg
        )
        self.gc_failed = Counter(
            "strata_daemon_gc_failed_deletes_total", "Deletions that failed; the entry stays.", ["reason"], registry=reg
        )
        self.heartbeat_last_write = Gauge(
            "strata_heartbeat_last_write_timestamp", "Wall time of the last good heartbeat.", registry=reg
        )
        self.heartbeat_failures = Counter(
            "strata_daemon_heartbeat_failures_total", "Heartbeat writes or reads that failed.", registry=reg
        )
        self.heartbeat_rows_gone = Counter(
            "strata_daemon_heartbeat_rows_gone_total", "Looks at which this node's row was gone.", registry=reg
        )
        self.node_id_clashes = Counter(
            "strata_daemon_node_id_clashes_total", "Looks at which another process used this node's id.", registry=reg
        )
        self.terms_begun = Counter("strata_daemon_terms_total", "Terms begun.", ["worker"], registry=reg)
        self.terms_ended = Counter(
            "strata_daemon_terms_ended_total", "Terms ended.", ["worker", "reason"], registry=reg
        )
        self.outcome_unknown = Counter(
            "strata_daemon_lease_outcome_unknown_total",
            "Tries on a lease whose outcome stayed unknown (faults.md 27).",
            ["statement"],
            registry=reg,
        )
        self.renew_s = Histogram(
            "strata_daemon_lease_renew_seconds",
            "First send of a renewal cycle to its answer.",
            buckets=[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
            registry=reg,
        )
        self.orphans = Counter(
            "strata_daemon_lease_orphans_total", "Rows of our own late attempts that were deleted.", registry=reg
        )
