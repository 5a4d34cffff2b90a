"""Whether renewals keep their time while gc drains at full rate: by the daemon's own histogram of its renewals."""

from __future__ import annotations

import time
from itertools import pairwise

import ring_queue
from figure import Bench, Figure, at_most
from processes import Failed
from ring_daemon import PASS, Daemon, Sample
from ring_ground import Ground
from ring_watching import Watcher

COUNT, QUICK_COUNT = 100_000, 20_000
SHARDS = 64
TTL_S, RENEW_S = 10, 2
TIMES = {"LEASE_TTL": f"{TTL_S}s", "LEASE_RENEW": f"{RENEW_S}s", "LEASE_STOP_BUDGET": "1s"}
P99_LIMIT_S = 0.5
DRAIN_S = 600.0
LOOK_S = 0.5
BUCKETS = "strata_daemon_lease_renew_seconds_bucket"


def renewals(bench: Bench, ground: Ground) -> list[Figure]:
    ground.empty()
    count = bench.pick(COUNT, QUICK_COUNT)
    made = ring_queue.fill(ground, "bench-renewals", count, ring_queue.hours_ago_ms(1))
    settings = {"REGION": made.region, "GC_SHARDS": str(SHARDS), "GC_GRACE": "1ms", "GC_INTERVAL": "1h", **TIMES}
    with Daemon(ground, bench.folder / "renewals", "bench-renewals", **settings) as daemon:
        daemon.wait_leads()
        with Watcher([daemon]) as watcher:
            sample = _drained(daemon, count)
        lost = len(daemon.lost())
        passes = daemon.lines(PASS)
        began = min(line.at - float(str(line.fields["took_s"])) for line in passes)
        rate = count / (max(line.at for line in passes) - began)
        daemon.stop()
    buckets = _buckets(sample)
    p99_s, latest_s = _quantile(buckets, 0.99), max(edge for (_, before), (edge, n) in pairwise(buckets) if n > before)
    gaps = watcher.sight.gaps()
    bench.say(f"drained {count:,} entries with {SHARDS} shards at {rate:,.0f} /s; {buckets[-1][1]:,.0f} renewals")
    bench.say(
        f"none answered later than {latest_s:g} s; the longest gap between good ones {max(gaps, default=0):.2f} s"
    )
    name = f"ring: renewals while gc drains {count:,} entries"
    return [
        Figure(f"{name}, p99", "s", p99_s, None, at_most(P99_LIMIT_S)),
        Figure(f"{name}, the slowest at most", "s", latest_s, None, at_most(RENEW_S)),
        Figure(f"{name}, leases lost", "", lost, None, at_most(0)),
    ]


def _drained(daemon: Daemon, count: int) -> Sample:
    """Wait until all is drained; what the metrics say then."""
    ends_at = time.monotonic() + DRAIN_S
    while True:
        sample = daemon.sample()
        if sample.total("strata_gc_processed_chunks_total") >= count:
            return sample
        if time.monotonic() > ends_at or daemon.process.popen.poll() is not None:
            raise Failed(f"not drained within {DRAIN_S:g} s")
        time.sleep(LOOK_S)


def _buckets(sample: Sample) -> list[tuple[float, float]]:
    """Upper edge in seconds and how many renewals took at most that long, ascending, from (0, 0) on."""
    found = sorted((float(labels["le"]), count) for labels, count in sample.series.get(BUCKETS, ()))
    if not found or not found[-1][1]:
        raise Failed(f"/metrics tells of no renewal ({BUCKETS})")
    return [(0.0, 0.0), *found]


def _quantile(buckets: list[tuple[float, float]], part: float) -> float:
    """Within its bucket by the rule of three."""
    wanted = part * buckets[-1][1]
    for (low, below), (high, count) in pairwise(buckets):
        if count >= wanted:
            return high if count == below else low + (high - low) * (wanted - below) / (count - below)
    return float("inf")
