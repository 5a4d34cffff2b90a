"""How long a lease is nobody's: from the signal to one of two processes until the other's first effect.

A round queues a few chunks, signals the holder at a random moment, waits until one of the files is gone, and starts a
process in the place of the one that left. The floor goes through the same rounds.
"""

from __future__ import annotations

import random
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from figure import Bench, Figure, at_most, spread
from processes import (
    LEADS,
    PRODUCT,
    STANDS_BY,
    Failed,
    Process,
    chunk_files,
    floor,
    seed,
    settings_for,
    wait_gone,
)

CHUNKS = 5
NODES = ("bench-a", "bench-b")
SETTLE_S = 1.5  # from the start of a candidate until it surely watches; twice its slowest look at the signals
SPREAD_S = 1.0  # the signal falls anywhere within a renewal period of the short leases
CRASH = {"LEASE_TTL": "3s", "LEASE_RENEW": "1s", "LEASE_STOP_BUDGET": "500ms"}
CRASH_TTL_S, CRASH_RENEW_S, CRASH_LIMIT_S = 3.0, 1.0, 4.0
CLEAN_MAX_S, CLEAN_MEDIAN_S = 1.0, 0.6


@dataclass(frozen=True, slots=True)
class Contest:
    """Two processes on one state folder. `command` gives that of a node, with its settings.

    `signalled`: the wall time of each signal, for whoever compares with times in a log.
    """

    state: Path
    command: Callable[[str], tuple[Sequence[str], dict[str, str]]]
    refill: Callable[[], None]
    signalled: list[float] = field(default_factory=list)

    def start(self, node: str, number: int) -> Process:
        command, settings = self.command(node)
        candidate = Process(command, settings, self.state / f"log-{number}-{node}")
        try:
            candidate.wait_line(STANDS_BY)
        except BaseException:
            candidate.kill()
            raise
        return candidate

    def rounds(self, count: int, number: signal.Signals) -> list[float]:
        """Seconds from each signal to the first effect of the other."""
        holder, standby = self.start(NODES[0], 0), None
        names, took = list(NODES), []
        try:
            holder.wait_line(LEADS)
            for index in range(1, count + 1):
                standby = self.start(names[1], index)
                took.append(self._round(holder, standby, number))
                holder, standby = standby, None
                names.reverse()
        finally:
            holder.kill()
            if standby is not None:
                standby.kill()
        return took

    def _round(self, holder: Process, standby: Process, number: signal.Signals) -> float:
        self.refill()
        chunks = chunk_files(self.state)
        if not chunks:
            raise Failed("no chunk file is there to be collected")
        time.sleep(SETTLE_S + random.random() * SPREAD_S)
        if not all(chunk.exists() for chunk in chunks):
            raise Failed("the holder collected chunks although it should have been idle")
        self.signalled.append(time.time())
        sent_at = holder.send(number)
        took_s = wait_gone(chunks) - sent_at
        code = holder.wait_end()
        if number is signal.SIGTERM and code != 0:
            raise Failed(f"a daemon ended by SIGTERM with code {code}")
        standby.wait_line(LEADS)
        wait_gone(chunks, all_of_them=True)
        return took_s


def product(bench: Bench, name: str, settings: dict[str, str]) -> Contest:
    state = bench.folder / f"{name}-product"
    state.mkdir()

    def command(node: str) -> tuple[Sequence[str], dict[str, str]]:
        # The holder looks only once, at the start of its term, so that the next chunks are left to the other.
        own = settings_for(state, NODE_ID=node, GC_GRACE="1ms", GC_INTERVAL="1h", **settings)
        return [*PRODUCT, "run"], own

    return Contest(state, command, lambda: seed(state, CHUNKS, "--size", "1KiB"))


def bare(bench: Bench, name: str, ttl_s: float, renew_s: float) -> Contest:
    state = bench.folder / f"{name}-floor"
    chunks = state / "data" / "default" / "chunks" / "000"
    chunks.mkdir(parents=True)

    def command(node: str) -> tuple[Sequence[str], dict[str, str]]:
        return floor("candidate", state, node, ttl_s, renew_s), {}

    def refill() -> None:
        for index in range(CHUNKS):
            (chunks / str(index)).write_bytes(b"\0" * 1024)

    return Contest(state, command, refill)


def clean(bench: Bench) -> list[Figure]:
    count = bench.pick(50, 5)
    took = _measure(bench, "handover", product(bench, "handover", {}), count, signal.SIGTERM)
    least = _measure(bench, "handover floor", bare(bench, "handover", 30.0, 10.0), bench.pick(10, 3), signal.SIGTERM)
    name = f"clean handover, {count} rounds"
    return [
        Figure(f"{name}, max", "s", max(took), max(least), at_most(CLEAN_MAX_S)),
        Figure(f"{name}, median", "s", statistics.median(took), statistics.median(least), at_most(CLEAN_MEDIAN_S)),
    ]


def crash(bench: Bench) -> list[Figure]:
    count = bench.pick(20, 3)
    took = _measure(bench, "crash", product(bench, "crash", CRASH), count, signal.SIGKILL)
    contest = bare(bench, "crash", CRASH_TTL_S, CRASH_RENEW_S)
    least = _measure(bench, "crash floor", contest, bench.pick(10, 3), signal.SIGKILL)
    return [Figure(f"crash takeover, {count} rounds, max", "s", max(took), max(least), at_most(CRASH_LIMIT_S))]


def _measure(bench: Bench, name: str, contest: Contest, count: int, number: signal.Signals) -> list[float]:
    took = contest.rounds(count, number)
    bench.say(f"{name}: {spread(took, 's')}")
    shutil.rmtree(contest.state)
    return took
