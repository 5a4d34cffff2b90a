"""Measures the figures that are promised, each beside its floor, and prints them; exit 1 when one is missed.

Called by scripts/bench/run. One figure after the other, since they would disturb each other.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import handover
import idle
import start
import throughput
from figure import Bench, Figure, table
from processes import Failed

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
LOOKS: dict[str, Callable[[Bench], list[Figure]]] = {"gc-batches": throughput.gc_batches}  # only when named
MISSED = 1


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*MEASUREMENTS, *LOOKS]))
@click.option("--quick", is_flag=True, help="Smaller counts: for a look, not for a verdict.")
@click.option("--keep", is_flag=True, help="Leave the work folder in place.")
@click.option(
    "--folder",
    envvar="STRATA_BENCH_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to make the work folder. Default: build/, on the disk of the project (a tmpfs would flatter syncs).",
)
def main(names: Sequence[str], quick: bool, keep: bool, folder: Path | None) -> None:
    """Measure NAMES, or every figure; gc-batches (a sweep of STRATA_GC_BATCH_SIZE) only when it is named."""
    parent = folder or ROOT / "build"
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    click.echo(f"bench: working in {work}", err=True)
    try:
        bench = Bench(work, quick, lambda remark: click.echo(f"  {remark}"))
        figures, failures = _measure(bench, names or list(MEASUREMENTS))
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
    if figures:
        click.echo(f"\n{table(figures)}")
    for failure in failures:
        click.echo(f"FAILED {failure}")
    sys.exit(MISSED if failures or not all(figure.is_met for figure in figures) else 0)


def _measure(bench: Bench, names: Sequence[str]) -> tuple[list[Figure], list[str]]:
    """The figures, and for each measurement that could not be made its name and why. The others go on."""
    figures: list[Figure] = []
    failures: list[str] = []
    for name in names:
        click.echo(f"{name}:")
        try:
            figures += (MEASUREMENTS | LOOKS)[name](bench)
        except Failed as exc:
            failures.append(f"{name}: {exc}")
            click.echo(f"  failed: {exc}")
    return figures, failures


if __name__ == "__main__":
    main()
