"""How long a lease on a ring is nobody's: after SIGTERM until the other daemon's term, and its first effect; after
SIGKILL until the next term, counted from the last renewal of the one that was killed.

With one lease the rounds are those of `handover`, on the ring. With many, a standby that came just before takes them
all: the share of two nodes has not been balanced yet, so more changes hands at once than it ever would after that.
"""

from __future__ import annotations

import random
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import ring_queue
from figure import Bench, Figure, at_most, spread
from handover import CHUNKS, NODES, SETTLE_S, SPREAD_S, Contest
from processes import LEADS, PRODUCT, Failed, floor
from ring_daemon import Daemon, read_log
from ring_ground import KEYSPACE, Ground
from ring_queue import CLUSTER, Fill

from strata_daemon.domain.sharding import gc_shard

ROUNDS, QUICK_ROUNDS = 50, 3
FLOOR_ROUNDS = 10
CLEAN_MAX_S, CLEAN_MEDIAN_S = 1.5, 0.6
MANY, MANY_MAX_S = 64, 3.0
ACQUIRE_S = 90.0
BEYOND_TTL_S = 2.0
LONG = {"LEASE_TTL": "30s", "LEASE_RENEW": "10s", "LEASE_STOP_BUDGET": "2s"}
SHORT = {"LEASE_TTL": "10s", "LEASE_RENEW": "2s", "LEASE_STOP_BUDGET": "1s"}
LONG_TTL_S, LONG_RENEW_S, LONG_ROUNDS = 30, 10.0, 5
SHORT_TTL_S, SHORT_RENEW_S, SHORT_ROUNDS = 10, 2.0, 10
LEASE = "gc-leader-0"
REGION = "bench-handover"
FLOOR_LEASE = "bench-floor-lease"


def clean(bench: Bench, ground: Ground) -> list[Figure]:
    ground.empty()
    count = bench.pick(ROUNDS, QUICK_ROUNDS)
    contest = _product(bench, ground)
    effects = contest.rounds(count, signal.SIGTERM)
    took = list(_new_holders(contest))
    bench.say(f"new holder: {spread(took, 's')}")
    bench.say(f"its first effect: {spread(effects, 's')}")
    least = _floor(bench, ground).rounds(bench.pick(FLOOR_ROUNDS, QUICK_ROUNDS), signal.SIGTERM)
    bench.say(f"floor: {spread(least, 's')}")
    middle, most = statistics.median(least), max(least)
    name = f"ring: clean handover, 1 shard, {count} rounds"
    return [
        Figure(f"{name}, new holder, median", "s", statistics.median(took), middle, at_most(CLEAN_MEDIAN_S)),
        Figure(f"{name}, new holder, max", "s", max(took), most, at_most(CLEAN_MAX_S)),
        Figure(f"{name}, its first effect, median", "s", statistics.median(effects), middle, None),
        Figure(f"{name}, its first effect, max", "s", max(effects), most, None),
    ]


def _product(bench: Bench, ground: Ground) -> Contest:
    state = bench.folder / "ring-handover"
    state.mkdir()

    def command(node: str) -> tuple[Sequence[str], dict[str, str]]:
        # The holder looks only once, at the start of its term, so that the next chunks are left to the other.
        own = {"NODE_ID": node, "REGION": REGION, "DATA_BACKEND": "dir", "GC_GRACE": "1ms", "GC_INTERVAL": "1h"}
        return [*PRODUCT, "run"], ground.settings(state, **own)

    def refill() -> None:
        oids = ring_queue.names(CHUNKS)
        _put_files(state, oids)
        ring_queue.write(ground, Fill(REGION, CLUSTER, ring_queue.hours_ago_ms(1), oids, pool=""))

    return Contest(state, command, refill)


def _floor(bench: Bench, ground: Ground) -> Contest:
    state = bench.folder / "ring-handover-floor"
    state.mkdir()

    def command(node: str) -> tuple[Sequence[str], dict[str, str]]:
        place = (ground.hosts, ground.data_centre, KEYSPACE, FLOOR_LEASE, state / "data")
        return floor("ring_candidate", *place, LONG_TTL_S, LONG_RENEW_S), {}

    return Contest(state, command, lambda: _put_files(state, ring_queue.names(CHUNKS)))


def _put_files(state: Path, oids: Sequence[str]) -> None:
    for oid in oids:
        folder = state / "data" / CLUSTER / "chunks" / f"{gc_shard(oid):03x}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / oid).write_bytes(b"\0" * 1024)


def _new_holders(contest: Contest) -> Iterator[float]:
    """For each round the seconds from the signal until the log of the other one says that it leads."""
    for number, sent_at in enumerate(contest.signalled, 1):
        log = contest.state / f"log-{number}-{NODES[number % 2]}"
        yield next(line.at for line in read_log(log) if line.msg == LEADS) - sent_at


def clean_many(bench: Bench, ground: Ground) -> list[Figure]:
    ground.empty()
    count, took = bench.pick(ROUNDS, QUICK_ROUNDS), []
    with _chain(bench, ground, "handover-64", GC_SHARDS=str(MANY)) as start:
        holder = start().wait_leads(MANY, ACQUIRE_S)
        for _ in range(count):
            standby = start().wait_started()
            time.sleep(SETTLE_S + random.random() * SPREAD_S)
            if standby.acquired():
                raise Failed("the holder gave leases up before it was told to stop")
            sent_at = holder.term()
            standby.wait_leads(MANY, ACQUIRE_S)
            took.append(max(line.at for line in standby.acquired()) - sent_at)
            if holder.process.wait_end() != 0:
                raise Failed("a daemon did not end by SIGTERM with code 0")
            holder = standby
    bench.say(f"last of {MANY} shards: {spread(took, 's')}")
    name = f"ring: clean handover, last of {MANY} shards, {count} rounds"
    return [
        Figure(f"{name}, max", "s", max(took), None, at_most(MANY_MAX_S)),
        Figure(f"{name}, median", "s", statistics.median(took), None, None),
    ]


def crash_short(bench: Bench, ground: Ground) -> list[Figure]:
    return _crash(bench, ground, SHORT, SHORT_TTL_S, SHORT_RENEW_S, bench.pick(SHORT_ROUNDS, 2))


def crash_long(bench: Bench, ground: Ground) -> list[Figure]:
    return _crash(bench, ground, LONG, LONG_TTL_S, LONG_RENEW_S, bench.pick(LONG_ROUNDS, 1))


def _crash(bench: Bench, ground: Ground, times: dict[str, str], ttl_s: int, renew_s: float, count: int) -> list[Figure]:
    """The last renewal is when the ring says that the row was written: its ballot bears the coordinator's clock."""
    ground.empty()
    took = []
    written = f"SELECT holder, WRITETIME(holder) FROM {KEYSPACE}.worker_locks WHERE name = %s"
    with _chain(bench, ground, f"crash-{ttl_s}", **times) as start:
        holder = start().wait_leads()
        for number in range(1, count + 1):
            standby = start().wait_started()
            time.sleep(SETTLE_S + random.random() * renew_s)
            holder.process.kill()
            who, at_us = ground.execute(written, (LEASE,)).one()
            if not str(who).startswith(f"{holder.node}/"):
                raise Failed(f"the lease of {holder.node} was {who}'s when it was killed")
            standby.wait_leads(within_s=ACQUIRE_S)
            took.append(standby.acquired()[0].at - at_us / 1_000_000)
            bench.say(f"round {number} of {count}: new holder {took[-1]:.2f} s after the last renewal")
            holder = standby
    name = f"ring: crash takeover, TTL {ttl_s} s, {count} rounds, max after the last renewal"
    return [Figure(name, "s", max(took), None, at_most(ttl_s + BEYOND_TTL_S))]


@contextmanager
def _chain(bench: Bench, ground: Ground, name: str, **settings: str) -> Iterator[Callable[[], Daemon]]:
    """Starts one daemon after the other, under a name of its own each; those that run at the end are killed."""
    with ExitStack() as stack:
        numbers = iter(range(1, 10_000))

        def start() -> Daemon:
            number = next(numbers)
            state = bench.folder / f"{name}-{number}"
            return stack.enter_context(Daemon(ground, state, f"bench-{name}-{number}", **settings))

        yield start
