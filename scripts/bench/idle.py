"""What a daemon without work costs: memory and a share of a core, with one lease and with 1,024 of them."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
from figure import Bench, Figure, at_most
from processes import LEADS, PRODUCT, STANDS_BY, Process, floor, settings_for

WATCHED_S = 40
SETTLE_S = 5.0  # the start is not idling
SAMPLE_S = 0.5
MIB = 1024 * 1024
RENEW_S = 10.0  # the default of STRATA_LEASE_RENEW
SHARDS = 1024
SHARDS_MIB, SHARDS_PERCENT = 150.0, 5.0
DEFAULT_MIB, DEFAULT_PERCENT = 80.0, 1.0


def cost(process: Process, watched_s: float) -> tuple[float, float]:
    """The largest resident size in MiB, and the share of a core in per cent."""
    time.sleep(SETTLE_S)
    seen = psutil.Process(process.popen.pid)
    largest = seen.memory_info().rss
    cpu_before, began = seen.cpu_times(), time.monotonic()
    while time.monotonic() < began + watched_s:
        time.sleep(SAMPLE_S)
        largest = max(largest, seen.memory_info().rss)
    cpu, took_s = seen.cpu_times(), time.monotonic() - began
    used_s = cpu.user + cpu.system - cpu_before.user - cpu_before.system
    return largest / MIB, round(100.0 * used_s / took_s, 3)  # the clock of a process ticks each 10 ms


def shards(bench: Bench) -> list[Figure]:
    state, bare = _folders(bench, "shards")
    own = settings_for(state, GC_SHARDS=str(SHARDS))
    with Process([*PRODUCT, "run"], own, state / "log") as daemon:
        began = time.monotonic()
        daemon.wait_line(LEADS, SHARDS, within_s=180.0)
        bench.say(f"shards: {SHARDS:,} leases held after {time.monotonic() - began:.1f} s")
        mib, percent = cost(daemon, bench.pick(WATCHED_S, 12))
    with Process(floor("leases", bare, SHARDS, RENEW_S), {}, bare / "log") as loop:
        loop.wait_line(LEADS)
        floor_mib, floor_percent = cost(loop, bench.pick(WATCHED_S, 12))
    return [
        Figure(f"{SHARDS:,} gc shards, idle", "MiB", mib, floor_mib, at_most(SHARDS_MIB)),
        Figure(f"{SHARDS:,} gc shards, idle", "% of a core", percent, floor_percent, at_most(SHARDS_PERCENT)),
    ]


def default(bench: Bench) -> list[Figure]:
    state, bare = _folders(bench, "idle")
    with Process([*PRODUCT, "run"], settings_for(state), state / "log") as daemon:
        daemon.wait_line(LEADS)
        mib, percent = cost(daemon, bench.pick(WATCHED_S, 12))
    with Process(floor("libraries", "sleep"), {}, bare / "log") as sleeper:
        sleeper.wait_line(STANDS_BY)
        floor_mib, floor_percent = cost(sleeper, bench.pick(WATCHED_S, 12))
    return [
        Figure("idle daemon, default settings", "MiB", mib, floor_mib, at_most(DEFAULT_MIB)),
        Figure("idle daemon, default settings", "% of a core", percent, floor_percent, at_most(DEFAULT_PERCENT)),
    ]


def _folders(bench: Bench, name: str) -> tuple[Path, Path]:
    """The state folder of the product and the folder of the floor."""
    folders = bench.folder / name, bench.folder / f"{name}-floor"
    for folder in folders:
        folder.mkdir()
    return folders
