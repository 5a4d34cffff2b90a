"""`/metrics`: the counters of the process, and gauges of its state computed from a snapshot at each scrape."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from strata_daemon import __version__
from strata_daemon.leader.cycle import BACKING_OFF, BUILDING, FINISHED, RUNNING, STOPPED, WAITING
from strata_daemon.supervision.snapshot import Snapshot

PHASES = (WAITING, BUILDING, RUNNING, BACKING_OFF, STOPPED, FINISHED)


class StateCollector(Collector):
    """Leaders and standbys export the same families. `wall_s`: seconds since 1970, for ages of stored timestamps."""

    def __init__(self, look: Callable[[], Snapshot], wall_s: Callable[[], float], region: str) -> None:
        self._look = look
        self._wall_s = wall_s
        self._region = region
        self._process = ProcessCollector(registry=None)  # process_*: memory, CPU, descriptors, start

    def collect(self) -> Iterator[Metric]:
        snapshot = self._look()
        info = GaugeMetricFamily("strata_daemon_build_info", "Version of this daemon.", labels=["version", "node"])
        info.add_metric([__version__, snapshot.node_id], 1)
        yield info
        yield from _leases(snapshot)
        yield from _workers(snapshot)
        yield from self._queue(snapshot)
        threads = GaugeMetricFamily("strata_daemon_threads", "Threads of the process that Python knows of.")
        threads.add_metric([], threading.active_count())
        yield threads
        yield from self._process.collect()

    def _queue(self, snapshot: Snapshot) -> Iterator[Metric]:
        depth = GaugeMetricFamily("strata_gc_queue_depth", "Entries of the whole gc queue.", labels=["region"])
        oldest = GaugeMetricFamily(
            "strata_daemon_gc_oldest_age_seconds", "Age of the oldest queued entry.", labels=["region"]
        )
        aside = GaugeMetricFamily(
            "strata_daemon_gc_set_aside", "Entries whose deletion failed, by reason.", labels=["region", "reason"]
        )
        age = GaugeMetricFamily(
            "strata_daemon_gc_depth_age_seconds", "How long ago the queue was measured.", labels=["region"]
        )
        exact = GaugeMetricFamily(
            "strata_daemon_gc_depth_is_exact", "0 where there may be more entries than were counted.", labels=["region"]
        )
        if snapshot.depth is not None and snapshot.depth_at is not None:
            depth.add_metric([self._region], snapshot.depth.entries)
            oldest_ms = snapshot.depth.oldest_ms
            oldest_s = 0.0 if oldest_ms is None else max(0.0, self._wall_s() - oldest_ms / 1000)
            oldest.add_metric([self._region], oldest_s)
            for reason, count in snapshot.depth.set_aside.items():
                aside.add_metric([self._region, reason], count)
            read_s = snapshot.at - snapshot.depth_at
            counted_ms = snapshot.depth.counted_ms
            counted_s = 0.0 if counted_ms is None else max(0.0, self._wall_s() - counted_ms / 1000)
            age.add_metric([self._region], max(read_s, counted_s))
            exact.add_metric([self._region], 0 if snapshot.depth.is_at_least else 1)
        yield from (depth, oldest, aside, age, exact)


def _leases(snapshot: Snapshot) -> Iterator[Metric]:
    labels = ["worker", "lease"]
    held = GaugeMetricFamily("strata_daemon_lease_held", "1 for each lease that this node holds.", labels=labels)
    token = GaugeMetricFamily("strata_daemon_lease_token", "Fencing token of the term.", labels=labels)
    renewed = GaugeMetricFamily(
        "strata_daemon_lease_renew_age_seconds", "Since the first send of the last good renewal.", labels=labels
    )
    valid = GaugeMetricFamily("strata_daemon_lease_valid_seconds", "Validity left.", labels=labels)
    for term in snapshot.held():
        view, names = term.view, [term.worker, term.lease]
        held.add_metric(names, 1)
        token.add_metric(names, view.token or 0)
        renewed.add_metric(names, snapshot.at - (view.renewed_at or snapshot.at))
        valid.add_metric(names, max(0.0, (view.valid_until or snapshot.at) - snapshot.at))
    yield from (held, token, renewed, valid)


def _workers(snapshot: Snapshot) -> Iterator[Metric]:
    phase = GaugeMetricFamily(
        "strata_daemon_worker_phase", "1 for the phase that a worker is in.", labels=["worker", "phase"]
    )
    step = GaugeMetricFamily(
        "strata_daemon_backoff_step", "Back-off step that the next crash of a worker takes.", labels=["worker"]
    )
    for name, state in snapshot.workers.items():
        for each in PHASES:
            phase.add_metric([name, each], 1 if each == state.phase else 0)
        step.add_metric([name], state.step)
    dead = GaugeMetricFamily("strata_daemon_dead_threads", "Supervised threads that do not run.")
    dead.add_metric([], len(snapshot.dead))
    beat = GaugeMetricFamily("strata_daemon_timer_beat_age_seconds", "Since the lease timer's last turn.")
    beat.add_metric([], snapshot.at - snapshot.timer_beat_at)
    beats = GaugeMetricFamily("strata_daemon_beat_age_seconds", "Since a thread's last turn.", labels=["thread"])
    for each_beat in snapshot.beats:
        beats.add_metric([each_beat.thread], snapshot.at - each_beat.at)
    yield from (phase, step, dead, beat, beats)
