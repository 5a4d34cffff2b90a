"""What stalls and crashes of nodes do to leases that are held: terms lost, gaps between good renewals, overlaps.

Two daemons share 64 leases, so that each node is the first replica of some. The gaps are those that the daemons' own
metrics show, from first send to first send of good renewals.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from uuid import uuid4

import ring_queue
from figure import Bench, Bound, Figure, at_most, spread
from processes import Failed
from ring_daemon import Daemon
from ring_ground import KEYSPACE, NODES, Ground
from ring_watching import Sight, Watcher, inside_s, overlaps, spans

SHARDS = 64
TTL_S, RENEW_S, STOP_BUDGET_S = 30, 10.0, 2.0
TIMES = {"LEASE_TTL": "30s", "LEASE_RENEW": "10s", "LEASE_STOP_BUDGET": "2s"}
DAEMONS = ("bench-fault-a", "bench-fault-b")
PAIRS = ((1, 2), (2, 3), (1, 3))
ACQUIRE_S, BALANCE_S = 90.0, 120.0
ROUNDS = 5
PAUSE_S, QUICK_PAUSE_S = 60, 15
DOWN_S, QUICK_DOWN_S = 15, 5  # from a kill to the next start
HEALED_S = 12.0  # every lease renews once
SHORT_S, LONGER_S = 12, 15
LONG_S, QUICK_LONG_S = 90, 45
LOADED = 200_000  # entries, so that runners are inside when the ring stalls
QUICK_LOADED = 100_000
WORKS_S = 3.0
AGAIN_LIMIT_S = 5.0
PROBE_S, PROBE_TIMEOUT_S, PROBES_S = 0.05, 1.0, 120.0


def node_paused(bench: Bench, ground: Ground) -> list[Figure]:
    pause_s = bench.pick(PAUSE_S, QUICK_PAUSE_S)

    def stall(node: int) -> None:
        ground.ring.pause(node)
        time.sleep(pause_s)
        ground.ring.resume(node)
        ground.ring.wait()

    return _one_node(bench, ground, f"one node of three paused {pause_s} s", stall)


def node_killed(bench: Bench, ground: Ground) -> list[Figure]:
    def crash(node: int) -> None:
        ground.ring.kill(node)
        time.sleep(bench.pick(DOWN_S, QUICK_DOWN_S))
        ground.ring.restart(node)

    return _one_node(bench, ground, "one node of three killed and started again", crash)


def node_restarted(bench: Bench, ground: Ground) -> list[Figure]:
    return _one_node(bench, ground, "one node of three restarted in the ordinary way", ground.ring.restart)


def _one_node(bench: Bench, ground: Ground, name: str, fault: Callable[[int], None]) -> list[Figure]:
    rounds = bench.pick(ROUNDS, 1)
    nodes = islice(cycle(range(1, NODES + 1)), rounds)
    return _judged(
        bench, ground, f"ring: {name}, {rounds} rounds", [partial(fault, node) for node in nodes], at_most(0)
    )


def two_paused(bench: Bench, ground: Ground) -> list[Figure]:
    """12 s must cost no term; what 15 s cost is reported."""
    figures, rounds = [], bench.pick(ROUNDS, 1)

    def stall(pair: Sequence[int], pause_s: float) -> None:
        _pause(ground, pair)
        time.sleep(pause_s)
        _resume(ground, pair)

    for pause_s, bound in ((SHORT_S, at_most(0)), (LONGER_S, None)):
        faults = [partial(stall, pair, pause_s) for pair in islice(cycle(PAIRS), rounds)]
        figures += _judged(
            bench, ground, f"ring: two nodes of three paused {pause_s} s, {rounds} rounds", faults, bound
        )
    return figures


def _judged(
    bench: Bench, ground: Ground, name: str, faults: Sequence[Callable[[], None]], lost_bound: Bound | None
) -> list[Figure]:
    """Let each fault come at a random moment of the renewal period. An overlap is never allowed."""
    ground.ring.wait()
    with _mended(ground), _two_daemons(bench, ground) as daemons:
        with Watcher(daemons) as watcher:
            for number, fault in enumerate(faults, 1):
                time.sleep(HEALED_S + random.random() * RENEW_S)
                began = time.time()
                fault()
                lost = sum(len(daemon.lost(began)) for daemon in daemons)
                bench.say(f"round {number} of {len(faults)}: {lost} terms lost, {time.time() - began:.0f} s")
            time.sleep(HEALED_S)
        lost = sum(len(daemon.lost()) for daemon in daemons)
        found = overlaps(spans(daemons))
        for daemon in daemons:
            daemon.stop()
    sight = watcher.sight
    _tell(bench, sight, found)
    return [
        Figure(f"{name}, terms lost", "", lost, None, lost_bound),
        Figure(f"{name}, overlaps", "", len(found) + len(sight.stale), None, at_most(0)),
        Figure(f"{name}, longest gap between good renewals", "s", max(sight.gaps()), None, None),
    ]


def two_paused_long(bench: Bench, ground: Ground) -> list[Figure]:
    """Longer than any lease, while gc drains: every runner must be out before its lease ends, and one leads again."""
    pause_s, pair = bench.pick(LONG_S, QUICK_LONG_S), PAIRS[0]
    ground.ring.wait()
    ground.empty()
    count = bench.pick(LOADED, QUICK_LOADED)
    made = ring_queue.fill(ground, "bench-cut", count, ring_queue.hours_ago_ms(1))
    settings = {"REGION": made.region, "GC_GRACE": "1ms", "GC_INTERVAL": "1s", **TIMES}
    folder = bench.folder / "cut"
    with (
        _mended(ground),
        Daemon(ground, folder, DAEMONS[0], **settings) as leader,
        Daemon(ground, folder, DAEMONS[1], **settings) as standby,
    ):
        daemons = [leader.wait_started(), standby.wait_started()]
        _wait_until(lambda: any(daemon.acquired() for daemon in daemons), ACQUIRE_S, "nobody leads")
        with Watcher(daemons) as watcher:
            time.sleep(WORKS_S)
            done = sum(_processed(daemon) for daemon in daemons)
            if not 0 < done < count:
                raise Failed(
                    f"{done:,.0f} of {count:,} entries were done when the ring should have stalled in mid-drain"
                )
            paused_at = time.time()
            _pause(ground, pair)
            time.sleep(pause_s)
            _resume(ground, pair)
            written_at = _outside_write(ground)
            _wait_until(lambda: any(d.acquired(paused_at) for d in daemons), ACQUIRE_S, "nobody leads again")
            time.sleep(HEALED_S)
        lost, again = (
            [line for d in daemons for line in d.lost()],
            [line for d in daemons for line in d.acquired(paused_at)],
        )
        found, ended = overlaps(spans(daemons)), [d.node for d in daemons if d.process.popen.poll() is not None]
    return _judged_long(bench, watcher.sight, pause_s, (len(lost), len(again)), again[0].at - written_at, found, ended)


def _judged_long(
    bench: Bench,
    sight: Sight,
    pause_s: float,
    terms: tuple[int, int],
    again_s: float,
    found: Sequence[str],
    ended: Sequence[str],
) -> list[Figure]:
    inside = max(inside_s(sight.problems), default=0.0)
    bench.say(f"{terms[0]} terms lost, {terms[1]} begun since the pause; processes that ended: {list(ended) or 'none'}")
    _tell(bench, sight, found)
    name = f"ring: two nodes of three paused {pause_s} s in mid-drain"
    return [
        Figure(f"{name}, runner inside after its term was lost", "s", inside, None, at_most(STOP_BUDGET_S)),
        Figure(f"{name}, processes that ended", "", len(ended), None, at_most(0)),
        Figure(f"{name}, overlaps", "", len(found) + len(sight.stale), None, at_most(0)),
        Figure(f"{name}, one leads again after an outside write", "s", max(0.0, again_s), None, at_most(AGAIN_LIMIT_S)),
    ]


def _tell(bench: Bench, sight: Sight, found: Sequence[str]) -> None:
    if gaps := sight.gaps():
        bench.say(f"gaps between good renewals: {spread(gaps, 's')}")
    for what, lines in (("overlap", found), ("no answer", sight.silences), ("problem", sight.problems)):
        if lines:
            bench.say(f"{len(lines)} x {what}, such as: {lines[0][:200]}")


@contextmanager
def _two_daemons(bench: Bench, ground: Ground) -> Iterator[list[Daemon]]:
    """They share the leases, and nothing moves any more."""
    ground.empty()
    folder, settings = bench.folder / f"fault-{uuid4().hex[:8]}", {"GC_SHARDS": str(SHARDS), **TIMES}
    with (
        Daemon(ground, folder, DAEMONS[0], **settings) as a,
        Daemon(ground, folder, DAEMONS[1], **settings) as b,
    ):
        for daemon in (a, b):
            daemon.wait_started()
        half = SHARDS // 2
        _wait_until(lambda: a.held() == b.held() == half, BALANCE_S, "the daemons do not share the leases")
        yield [a, b]


@contextmanager
def _mended(ground: Ground) -> Iterator[None]:
    try:
        yield
    finally:
        ground.mend()


def _pause(ground: Ground, pair: Sequence[int]) -> None:
    for node in pair:
        ground.ring.pause(node)


def _resume(ground: Ground, pair: Sequence[int]) -> None:
    for node in pair:
        ground.ring.resume(node)


def _outside_write(ground: Ground) -> float:
    """When a conditional write by somebody else, on a lease of nobody's, was answered as applied."""
    cql = f"INSERT INTO {KEYSPACE}.worker_locks (name, holder) VALUES (%s, 'bench') IF NOT EXISTS USING TTL 1"
    ends_at = time.time() + PROBES_S
    while True:
        try:
            if ground.execute(cql, (f"bench-probe-{uuid4()}",), timeout=PROBE_TIMEOUT_S).one()[0]:
                return time.time()
        except Exception as exc:  # the driver's errors have no common base; the ring is not back yet
            if time.time() > ends_at:
                raise Failed(f"no conditional write was applied within {PROBES_S:g} s: {exc}") from exc
        time.sleep(PROBE_S)


def _processed(daemon: Daemon) -> float:
    return daemon.sample().total("strata_gc_processed_chunks_total")


def _wait_until(claim: Callable[[], bool], within_s: float, otherwise: str) -> None:
    ends_at = time.monotonic() + within_s
    while not claim():
        if time.monotonic() > ends_at:
            raise Failed(f"within {within_s:g} s {otherwise}")
        time.sleep(0.2)
