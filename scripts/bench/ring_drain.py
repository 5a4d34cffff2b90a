"""How fast gc drains a queue on a ring, beside a bare driver loop that sends the same reads and deletes.

Each run has a region of its own, so that no run reads over the tombstones of another but where that is what is
measured. What counts is the daemon's own line of its pass (from its first look to its last ack); the floor counts from
its first read to its last delete. Both are whole processes, in turn, on the same ring in the same minutes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count as counting
from pathlib import Path

import ring_queue
from figure import Bench, Figure, at_least_of_floor
from processes import PRODUCT, Failed, Process, environment, floor
from ring_daemon import PASS, Daemon
from ring_ground import KEYSPACE, Ground
from ring_queue import UNKNOWN_CLUSTER, Fill

FLOOR_IN_FLIGHT = (32, 64, 128, 256, 512)
STYLES = ("in", "batch")
PRODUCT_BATCHES = (100, 500, 1000, 2000, 5000)
COUNT, MANY, WORN, IN_FRONT = 10_000, 100_000, 200_000, 600
QUICK_COUNT, QUICK_MANY, QUICK_WORN = 5_000, 20_000, 20_000
REPEATS = 3
SHARE, SHARE_MANY, SHARE_WORN, SHARE_BEHIND = 0.7, 0.95, 0.9, 0.9
RUN_S = 600.0
FLOOR_S = 300.0
INTERVAL_S = 2
DUE_S = 15.0
LOOK_S = 0.5
_numbers = counting(1)


@dataclass(frozen=True, slots=True)
class Run:
    """`rate`: entries a second within the pass; `whole`: of the process, from spawn to exit."""

    rate: float
    whole: float
    set_aside: int


@dataclass(frozen=True, slots=True)
class Drains:
    """Runs of both sides on one ring. Each returns only when the tables were looked at and hold nothing more."""

    bench: Bench
    ground: Ground

    def fresh(self, count: int) -> Fill:
        """A region that nothing was ever deleted from, filled."""
        return ring_queue.fill(self.ground, f"bench-{next(_numbers)}", count, ring_queue.hours_ago_ms(1))

    def product(self, made: Fill, **settings: str) -> Run:
        state = self.bench.folder / f"drain-{next(_numbers)}"
        state.mkdir()
        own = self.ground.settings(state, REGION=made.region, GC_GRACE="1ms", **settings)
        began = time.monotonic()
        with Process([*PRODUCT, "run", "--once"], own, state / "log") as daemon:
            code = daemon.wait_end(RUN_S)
            took_s = time.monotonic() - began
            passes = [line for line in daemon.lines() if line.get("msg") == PASS]
        if code != 0 or len(passes) != 1:
            shown = (state / "log").read_text(errors="replace")[-2000:]
            raise Failed(f"`run --once` ended with code {code} after {len(passes)} passes:\n{shown}")
        self.require_done(made)
        done = passes[0]
        deleted = int(str(done["deleted"])) + int(str(done["absent"]))
        return Run(deleted / float(str(done["took_s"])), deleted / took_s, int(str(done["set_aside"])))

    def floor(self, made: Fill, in_flight: int, style: str) -> float:
        """Entries a second of the bare loop."""
        hosts, data_centre = self.ground.hosts, self.ground.data_centre
        command = floor("ring_drain", hosts, data_centre, KEYSPACE, made.region, made.end_ms, in_flight, style)
        told = json.loads(_output(command))
        if told["count"] != len(made.oids):
            raise Failed(f"the floor found {told['count']} of {len(made.oids)} entries")
        self.require_done(made)
        return float(told["count"] / told["took_s"])

    def sweep(self, count: int) -> tuple[int, str]:
        """The concurrency and the way of deleting with which the floor is the fastest."""
        self.floor(self.fresh(count), FLOOR_IN_FLIGHT[0], STYLES[0])  # uncounted: the nodes compile
        found = {
            (in_flight, style): self.floor(self.fresh(count), in_flight, style)
            for style in STYLES
            for in_flight in FLOOR_IN_FLIGHT
        }
        for style in STYLES:
            shown = ", ".join(f"{n}: {found[n, style]:,.0f} /s" for n in FLOOR_IN_FLIGHT)
            self.bench.say(f"floor, deletes by {style}, by requests in flight: {shown}")
        return max(found, key=lambda each: found[each])

    def require_done(self, made: Fill) -> None:
        left = ring_queue.left(self.ground, made)
        if any(left.values()):
            raise Failed(f"rows are left of a drain: {left}")


def drain(bench: Bench, ground: Ground) -> list[Figure]:
    drains = Drains(bench, ground)
    ground.empty()
    size = bench.pick(COUNT, QUICK_COUNT)
    drains.product(drains.fresh(size))  # uncounted: the first one reads the code from the disk
    in_flight, style = drains.sweep(size)
    product, bare, behind = [], [], []
    for _ in range(bench.pick(REPEATS, 1)):
        product.append(drains.product(drains.fresh(size)))
        bare.append(drains.floor(drains.fresh(size), in_flight, style))
        behind.append(_behind_unknown(drains, size))
    _tell(bench, "product", product)
    bench.say(f"floor ({in_flight} in flight, deletes by {style}): {_shown(bare)}")
    _tell(bench, f"behind {IN_FRONT} of an unknown cluster", behind)
    rate, name = _middle(product), f"ring: gc of {size:,} entries"
    floor_rate = statistics.median(bare)
    figures = [
        Figure(name, "/s", rate, floor_rate, at_least_of_floor(SHARE)),
        Figure(f"{name}, whole process", "/s", statistics.median(run.whole for run in product), None, None),
        Figure(
            f"{name} behind {IN_FRONT} of an unknown cluster (floor: without)",
            "/s",
            _middle(behind),
            rate,
            at_least_of_floor(SHARE_BEHIND),
        ),
    ]
    return figures + _many(drains, size, rate) + _worn(drains, size)


def _many(drains: Drains, size: int, rate: float) -> list[Figure]:
    many = drains.bench.pick(MANY, QUICK_MANY)
    run = drains.product(drains.fresh(many))
    _tell(drains.bench, f"{many:,} entries", [run])
    name = f"ring: gc of {many:,} entries (floor: of {size:,})"
    return [Figure(name, "/s", run.rate, rate, at_least_of_floor(SHARE_MANY))]


def _worn(drains: Drains, size: int) -> list[Figure]:
    """After many entries of the same partitions were drained, by the daemon that drained them: it reads on from where
    it stood. One that starts anew sweeps over the tombstones first: reported."""
    worn, region = drains.bench.pick(WORN, QUICK_WORN), f"bench-{next(_numbers)}"
    repeats = drains.bench.pick(REPEATS, 1)
    without = []
    for _ in range(repeats):
        with _running(drains, f"bench-{next(_numbers)}") as daemon:
            without.append(_drained(drains, daemon, size))
    before = ring_queue.fill(drains.ground, region, worn, ring_queue.hours_ago_ms(3))
    with _running(drains, region) as daemon:
        drained = _passes(daemon, 0.0, worn)
        after = [_drained(drains, daemon, size) for _ in range(repeats)]
        daemon.stop()
    drains.require_done(before)
    anew = drains.product(ring_queue.fill(drains.ground, region, size, ring_queue.hours_ago_ms(1)))
    drains.bench.say(f"{worn:,} entries, which leave their tombstones: {drained:,.0f} /s")
    drains.bench.say(f"over the tombstones: {_shown(after)}; without: {_shown(without)}")
    name, rate = f"ring: gc of {size:,} entries after {worn:,} were drained", statistics.median(without)
    return [
        Figure(f"{name} (floor: without)", "/s", statistics.median(after), rate, at_least_of_floor(SHARE_WORN)),
        Figure(f"{name}, started anew (floor: without)", "/s", anew.rate, rate, None),
    ]


@contextmanager
def _running(drains: Drains, region: str) -> Iterator[Daemon]:
    """A daemon with the one lease of gc, past its first pass."""
    settings = {"REGION": region, "GC_GRACE": "1ms", "GC_INTERVAL": f"{INTERVAL_S}s"}
    with Daemon(drains.ground, drains.bench.folder / f"running-{region}", region, **settings) as daemon:
        daemon.wait_leads(within_s=RUN_S)
        yield daemon


def _drained(drains: Drains, daemon: Daemon, size: int) -> float:
    """Entries a second. They are due together, some seconds after they are queued, so that no pass meets a part."""
    time.sleep(2.0 * INTERVAL_S)  # an empty pass
    began = time.time()
    made = ring_queue.fill(drains.ground, daemon.node, size, int((began + DUE_S) * 1000))
    if time.time() > began + DUE_S:
        raise Failed(f"queueing {size:,} entries took longer than {DUE_S:g} s")
    rate = _passes(daemon, began, size)
    drains.require_done(made)
    return rate


def _passes(daemon: Daemon, since: float, count: int) -> float:
    """Wait until passes since then have deleted so many entries; how many a second of their time."""
    ends_at = time.monotonic() + RUN_S
    while True:
        done = [line.fields for line in daemon.lines(PASS) if line.at >= since]
        deleted = sum(int(str(each["deleted"])) + int(str(each["absent"])) for each in done)
        if deleted >= count:
            return deleted / sum(float(str(each["took_s"])) for each in done)
        if time.monotonic() > ends_at or daemon.process.popen.poll() is not None:
            raise Failed(f"a running daemon deleted {deleted:,} of {count:,} entries")
        time.sleep(LOOK_S)


def _behind_unknown(drains: Drains, size: int) -> Run:
    """The entries in front stay in all three tables, are counted, and shown by `status`."""
    region, ground = f"bench-{next(_numbers)}", drains.ground
    front = ring_queue.fill(ground, region, IN_FRONT, ring_queue.hours_ago_ms(48), UNKNOWN_CLUSTER)
    run = drains.product(ring_queue.fill(ground, region, size, ring_queue.hours_ago_ms(1)))
    left = ring_queue.left(ground, front)
    if set(left.values()) != {IN_FRONT}:
        raise Failed(f"of {IN_FRONT} entries of an unknown cluster there are left: {left}")
    own = ground.settings(drains.bench.folder, REGION=region)
    shown = json.loads(_output([*PRODUCT, "status", "--json"], own))["queue"]["set_aside"]
    if run.set_aside != IN_FRONT or sum(shown.values()) != IN_FRONT:
        raise Failed(f"{IN_FRONT} entries were set aside, but the log says {run.set_aside} and `status` {shown}")
    return run


def batches(bench: Bench, ground: Ground) -> list[Figure]:
    """For a look at STRATA_GC_BATCH_SIZE; nothing must be reached."""
    drains = Drains(bench, ground)
    ground.empty()
    size = bench.pick(COUNT, QUICK_COUNT)
    found = {batch: drains.product(drains.fresh(size), GC_BATCH_SIZE=str(batch)).rate for batch in PRODUCT_BATCHES}
    bench.say("product by batch size: " + ", ".join(f"{batch}: {rate:,.0f} /s" for batch, rate in found.items()))
    return []


def _output(command: Sequence[str | Path], settings: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=environment(settings or {}),
        capture_output=True,
        text=True,
        timeout=FLOOR_S,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(f"{command[1]} ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _middle(runs: Sequence[Run]) -> float:
    return statistics.median(run.rate for run in runs)


def _tell(bench: Bench, what: str, runs: Sequence[Run]) -> None:
    shown = ", ".join(f"{run.rate:,.0f} (whole process {run.whole:,.0f})" for run in runs)
    bench.say(f"{what}: {shown} /s")


def _shown(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:,.0f}" for rate in rates) + " /s"
