"""Measures the figures that are promised, each beside its floor, and prints them; exit 1 when one is missed.

Called by scripts/bench/run. One figure after the other, since they would disturb each other.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import click
import handover
import idle
import ring_drain
import ring_faults
import ring_handover
import ring_idle
import ring_renewals
import ring_share
import start
import throughput
from figure import Bench, Figure, table
from processes import Failed
from ring_ground import Ground

ROOT = Path(__file__).resolve().parents[2]

MEASUREMENTS: dict[str, Callable[[Bench], list[Figure]]] = {
    "unknown-worker": start.unknown_worker,
    "first-term": start.first_term,
    "gc-files": throughput.gc_files,
    "gc-rows": throughput.gc_rows,
    "handover": handover.clean,
    "crash": handover.crash,
    "shards": idle.shards,
    "idle": idle.default,
}
# On a Cassandra ring of three nodes, which is started for them; the quick ones first.
RING: dict[str, Callable[[Bench, Ground], list[Figure]]] = {
    "ring-drain": ring_drain.drain,
    "ring-renewals": ring_renewals.renewals,
    "ring-idle": ring_idle.leaders,
    "ring-standby": ring_idle.standbys,
    "ring-share": ring_share.share,
    "ring-handover": ring_handover.clean,
    "ring-handover-64": ring_handover.clean_many,
    "ring-crash-10": ring_handover.crash_short,
    "ring-crash-30": ring_handover.crash_long,
    "ring-two-paused": ring_faults.two_paused,
    "ring-two-paused-90": ring_faults.two_paused_long,
    "ring-node-paused": ring_faults.node_paused,
    "ring-node-killed": ring_faults.node_killed,
    "ring-node-restarted": ring_faults.node_restarted,
}
# Only when named.
LOOKS: dict[str, Callable[[Bench], list[Figure]]] = {"gc-batches": throughput.gc_batches}
RING_LOOKS: dict[str, Callable[[Bench, Ground], list[Figure]]] = {"ring-batches": ring_drain.batches}
GROUPS = {"embedded": list(MEASUREMENTS), "ring": list(RING)}
MISSED = 1


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*GROUPS, *MEASUREMENTS, *RING, *LOOKS, *RING_LOOKS]))
@click.option("--quick", is_flag=True, help="Smaller counts: for a look, not for a verdict.")
@click.option("--keep", is_flag=True, help="Leave the work folder in place.")
@click.option(
    "--folder",
    envvar="STRATA_BENCH_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to make the work folder. Default: build/, on the disk of the project (a tmpfs would flatter syncs).",
)
def main(names: Sequence[str], quick: bool, keep: bool, folder: Path | None) -> None:
    """Measure NAMES: `embedded` (every figure that needs no ring; also without names), `ring` (every one on a ring), or
    single figures. Looks at STRATA_GC_BATCH_SIZE (gc-batches, ring-batches) only when they are named."""
    parent = folder or ROOT / "build"
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    click.echo(f"bench: working in {work}", err=True)
    try:
        bench = Bench(work, quick, lambda remark: click.echo(f"  {remark}"))
        with Ground(work, bench.say, is_quick=quick) as ground:
            figures, failures = _measure(bench, ground, _single(names or ["embedded"]))
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
    if figures:
        click.echo(f"\n{table(figures)}")
    for failure in failures:
        click.echo(f"FAILED {failure.splitlines()[0]}")
    sys.exit(MISSED if failures or not all(figure.is_met for figure in figures) else 0)


def _single(names: Sequence[str]) -> list[str]:
    """Groups as the names of their figures; each once."""
    return list(dict.fromkeys(single for name in names for single in GROUPS.get(name, [name])))


def _measure(bench: Bench, ground: Ground, names: Sequence[str]) -> tuple[list[Figure], list[str]]:
    """The figures, and for each measurement that could not be made its name and why. The others go on."""
    figures: list[Figure] = []
    failures: list[str] = []
    for name in names:
        click.echo(f"{name}: (load average {os.getloadavg()[0]:.1f})")
        began = time.monotonic()
        try:
            found = _figures(bench, ground, name)
        except Exception as exc:  # of a driver, too: an hour of other figures must not be lost with this one
            reason = str(exc) if isinstance(exc, Failed) else f"{type(exc).__name__}: {exc}"
            failures.append(f"{name}: {reason}")
            click.echo(f"  failed: {reason}")
        else:
            figures += found
            for figure in found:
                bench.say(f"= {', '.join(cell for cell in figure.cells() if cell not in ('', '-'))}")
        bench.say(f"took {time.monotonic() - began:.0f} s")
    return figures, failures


def _figures(bench: Bench, ground: Ground, name: str) -> list[Figure]:
    on_ring = (RING | RING_LOOKS).get(name)
    return on_ring(bench, ground) if on_ring is not None else (MEASUREMENTS | LOOKS)[name](bench)


def _leave(number: int, frame: FrameType | None) -> None:
    """So that what was started is ended."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    main()
