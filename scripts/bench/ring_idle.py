"""What a daemon without work costs a ring and its machine: requests as the nodes count them, and a share of a core."""

from __future__ import annotations

import time
from uuid import uuid4

import ring_counting
from figure import Bench, Figure, at_most, at_most_of_floor
from idle import cost
from processes import LEADS, Failed, Process, floor
from ring_counting import Rates, promises, rates, touched
from ring_daemon import Daemon
from ring_ground import KEYSPACE, NODES, Ground

SHARDS = (1, 64, 1024)
REQUESTS = {1: 4.0, 64: 12.0, 1024: 130.0}
PERCENT = {1: 1.0, 64: 2.0}
SHARE_OF_LOOP = 1.6
WATCHED_S, QUICK_WATCHED_S = 60, 15
SETTLE_S = 12.0  # a renewal period: the burst of the acquisitions is over
ACQUIRE_S = 180.0
RENEW_S = 10.0  # the default of STRATA_LEASE_RENEW
GRAINS_S = (0.0, 0.1)  # the loop at its dearer, evenly paced, and as the daemon bundles
STANDBY_REQUESTS, STANDBY_PER_HUNDRED = 3.0, 1 / 5
HELD_S = 900  # longer than a look at a standby takes


def leaders(bench: Bench, ground: Ground) -> list[Figure]:
    figures = []
    for shards in SHARDS:
        found, percent = _leader(bench, ground, shards)
        name = f"ring: idle leader, {shards:,} gc shards"
        figures.append(Figure(name, "requests/s", found.most, None, at_most(REQUESTS[shards])))
        if shards in PERCENT:
            figures.append(Figure(name, "% of a core", percent, None, at_most(PERCENT[shards])))
        else:
            loop = _bare_loop(bench, ground, shards)
            figures.append(Figure(name, "% of a core", percent, loop, at_most_of_floor(SHARE_OF_LOOP)))
    return figures


def _leader(bench: Bench, ground: Ground, shards: int) -> tuple[Rates, float]:
    ground.empty()
    with Daemon(ground, bench.folder / f"idle-{shards}", "bench-idle", GC_SHARDS=str(shards)) as daemon:
        daemon.wait_leads(shards, within_s=ACQUIRE_S)
        took_s = daemon.acquired()[-1].at - daemon.started_at
        time.sleep(SETTLE_S)
        before = ring_counting.count(ground, daemon)
        mib, percent = cost(daemon.process, bench.pick(WATCHED_S, QUICK_WATCHED_S))
        found = rates(before, ring_counting.count(ground, daemon), NODES)
        if daemon.lost():
            raise Failed(f"an idle daemon lost {len(daemon.lost())} leases")
        daemon.stop()
    bench.say(
        f"leader, {shards:,} shards: all held {took_s:.1f} s after the start; {_shown(found)},"
        f" {percent:.2f} % of a core, {mib:.0f} MiB"
    )
    return found, percent


def _bare_loop(bench: Bench, ground: Ground, shards: int) -> float:
    """A share of a core, in per cent: of the cheaper way to pace."""
    found = {}
    for grain_s in GRAINS_S:
        log = bench.folder / f"log-renew-{grain_s}"
        command = floor("ring_renew", ground.hosts, ground.data_centre, KEYSPACE, shards, RENEW_S, grain_s)
        with Process(command, {}, log) as loop:
            loop.wait_line(LEADS)
            found[grain_s] = cost(loop, bench.pick(WATCHED_S, QUICK_WATCHED_S))[1]
            if loop.popen.poll() is not None:
                raise Failed(f"the bare renew loop ended:\n{log.read_text()[-1000:]}")
        # Its leases are as many as a daemon's, and would be read over.
        away = ground.session.prepare(f"DELETE FROM {KEYSPACE}.worker_locks WHERE name = ? IF EXISTS")
        ground.gather([(away, (f"bench-floor-{index}",)) for index in range(shards)])
    shown = ", ".join(f"{percent:.2f} % (turns of {grain_s:g} s)" for grain_s, percent in found.items())
    bench.say(f"bare renew loop, {shards:,} leases each {RENEW_S:g} s: {shown}")
    return min(found.values())


def standbys(bench: Bench, ground: Ground) -> list[Figure]:
    figures = []
    for shards in SHARDS:
        found, tried = _standby(bench, ground, shards)
        name = f"ring: idle standby, {shards:,} gc shards"
        limit = STANDBY_REQUESTS + STANDBY_PER_HUNDRED * -(-shards // 100)
        figures += [
            Figure(name, "requests/s", found.most, None, at_most(limit)),
            Figure(f"{name}, conditional writes", "leases", tried, None, at_most(0)),
        ]
    return figures


def _standby(bench: Bench, ground: Ground, shards: int) -> tuple[Rates, int]:
    """Beside leases that nobody renews: so each conditional write is the standby's."""
    ground.empty()
    holder, names = f"bench-holder/1/{uuid4()}", [f"gc-leader-{index}" for index in range(shards)]
    _hold(ground, names, holder)
    try:
        _check_that_a_try_shows(ground, names[0])
        state = bench.folder / f"standby-{shards}"
        with Daemon(ground, state, "bench-standby", GC_SHARDS=str(shards)) as daemon:
            daemon.wait_started()
            time.sleep(SETTLE_S)
            marks, before = promises(ground), ring_counting.count(ground, daemon)
            mib, percent = cost(daemon.process, bench.pick(WATCHED_S, QUICK_WATCHED_S))
            found = rates(before, ring_counting.count(ground, daemon), NODES)
            tried = len(touched(marks, promises(ground)))
            daemon.stop()
    finally:
        _release(ground, names, holder)
    bench.say(
        f"standby, {shards:,} shards: {_shown(found)}, {tried} leases tried for,"
        f" {percent:.2f} % of a core, {mib:.0f} MiB"
    )
    return found, tried


def _hold(ground: Ground, names: list[str], holder: str) -> None:
    """A repeat of an insert that was executed after all is refused with our own holder."""
    cql = f"INSERT INTO {KEYSPACE}.worker_locks (name, holder) VALUES (?, ?) IF NOT EXISTS USING TTL {HELD_S}"
    take = ground.session.prepare(cql)
    for rows in ground.gather([(take, (name, holder)) for name in names]):
        row = rows.one()
        if not row[0] and row.holder != holder:
            raise Failed(f"a lease that the standby should wait for is held by {row.holder}")


def _release(ground: Ground, names: list[str], holder: str) -> None:
    release = ground.session.prepare(f"DELETE FROM {KEYSPACE}.worker_locks WHERE name = ? IF holder = ?")
    ground.gather([(release, (name, holder)) for name in names])


def _check_that_a_try_shows(ground: Ground, name: str) -> None:
    """What would count a conditional write of the standby is tried with one of ours, which is refused."""
    before = promises(ground)
    cql = f"INSERT INTO {KEYSPACE}.worker_locks (name, holder) VALUES (%s, 'bench') IF NOT EXISTS USING TTL 1"
    if ground.execute(cql, (name,)).one()[0] or len(touched(before, promises(ground))) != 1:
        raise Failed("a refused conditional write left no mark: the standby's would not be seen")


def _shown(found: Rates) -> str:
    return f"{found.statements:.2f} statements/s on the ring, {found.frames:.2f} frames/s of its own with heartbeats"
