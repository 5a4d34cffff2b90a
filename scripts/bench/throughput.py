"""How fast gc drains a queue, beside a bare loop of the same calls: with real chunk files, and with rows alone.

Both sides are whole processes, timed from spawn to exit, on fresh copies of one seed, in turn. Rows alone go so fast
that the start of an interpreter would be half of it: there each side runs once more on its drained folder, and that
time is taken off. The whole process is shown beside it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from figure import Bench, Figure, at_least, at_least_of_floor
from processes import PRODUCT, Failed, chunk_files, floor, seed, settings_for, timed

FILES_REPEATS, ROWS_REPEATS = 3, 5  # a run without files takes two seconds, and one disturbance spoils it
FLOOR_BATCHES = (500, 2000, 10_000)
PRODUCT_BATCHES = (500, 1000, 2000, 5000, 10_000)
FILES, ROWS = 100_000, 200_000
QUICK_FILES, QUICK_ROWS = 10_000, 100_000  # under that the start of the process is what counts
SHARE_OF_FLOOR = 0.5
ROWS_LEAST = 20_000.0


@dataclass(frozen=True, slots=True)
class Run:
    """How long a process took for `count` entries, and how long one that finds none."""

    count: int
    took_s: float
    empty_s: float

    @property
    def whole(self) -> float:
        """Entries a second of the whole process."""
        return self.count / self.took_s

    @property
    def net(self) -> float:
        """Entries a second without the start and the end of the process."""
        return self.count / (self.took_s - self.empty_s)


@dataclass(slots=True)
class Load:
    """Fresh copies of one seeded state folder, and how each side drains one."""

    bench: Bench
    name: str
    count: int
    floor_name: str
    settings: Mapping[str, str]
    copies: list[Path] = field(default_factory=list)

    def run(self, command: Callable[[Path], list[str]], empty: Callable[[Path], list[str]], **settings: str) -> Run:
        """One run, which uses up one copy, and one of `empty` on the drained folder. Raises Failed when anything is
        left."""
        state = self.copies.pop()
        environment = settings_for(state, GC_GRACE="1ms", **self.settings, **settings)
        took_s = timed(command(state), environment)
        self._require_done(state)
        return Run(self.count, took_s, timed(empty(state), environment))

    def product(self, batch: int | None = None) -> Run:
        settings = {} if batch is None else {"GC_BATCH_SIZE": str(batch)}
        command = [*PRODUCT, "run", "--once"]
        return self.run(lambda state: command, lambda state: command, **settings)

    def floor(self, batch: int) -> Run:
        return self.run(
            lambda state: floor(self.floor_name, state, batch),
            lambda state: floor(self.floor_name, state, batch, "--empty"),
        )

    def _require_done(self, state: Path) -> None:
        db = sqlite3.connect(state / "strata.db")
        (rows,) = db.execute("SELECT count(*) FROM gc_entries").fetchone()
        db.close()
        files = len(chunk_files(state))
        if rows or files:
            raise Failed(f"{rows} rows and {files} chunk files are left after a run that should have drained all")


@contextmanager
def prepared(load: Load, runs: int, *seeding: str) -> Iterator[None]:
    """Seed `load` for so many runs; what is left of it goes at the end.

    All copies are made before the first deletion: ext4 does not give out an inode again for a minute or more, and
    passes over such ones one by one, so that copies made in between take ten times as long.
    """
    seeded = load.bench.folder / f"{load.name}-seed"
    seed(seeded, load.count, *seeding, **load.settings)
    load.copies += [load.bench.folder / f"{load.name}-{run}" for run in range(runs)]
    try:
        for copy in load.copies:
            timed(["cp", "-a", "--reflink=auto", str(seeded), str(copy)])
        os.sync()  # what the copies left to write is not part of a run
        yield
    finally:
        for folder in load.bench.folder.glob(f"{load.name}-*"):
            shutil.rmtree(folder)


def files_load(bench: Bench) -> tuple[Load, list[str]]:
    """With real chunk files; and the options that seed it."""
    return Load(bench, "gc-files", bench.pick(FILES, QUICK_FILES), "gc_files", {}), ["--size", "1KiB"]


def rows_load(bench: Bench) -> tuple[Load, list[str]]:
    """With the memory chunk store; and the options that seed it."""
    count = bench.pick(ROWS, QUICK_ROWS)
    return Load(bench, "gc-rows", count, "gc_rows", {"DATA_BACKEND": "memory"}), ["--no-files"]


def gc_files(bench: Bench) -> list[Figure]:
    load, seeding = files_load(bench)
    product, bare = _in_turn(load, seeding, FILES_REPEATS)
    name = f"gc of {load.count:,} chunk files"
    return [Figure(name, "/s", _whole(product), _whole(bare), at_least_of_floor(SHARE_OF_FLOOR))]


def gc_rows(bench: Bench) -> list[Figure]:
    load, seeding = rows_load(bench)
    product, bare = _in_turn(load, seeding, ROWS_REPEATS)
    name = f"gc of {load.count:,} entries, memory chunks"
    nets = [statistics.median(run.net for run in runs) for runs in (product, bare)]
    return [
        Figure(name, "/s", *nets, at_least_of_floor(SHARE_OF_FLOOR)),
        Figure(f"{name}, whole process", "/s", _whole(product), _whole(bare), at_least(ROWS_LEAST)),
    ]


def gc_batches(bench: Bench) -> list[Figure]:
    """For a look at STRATA_GC_BATCH_SIZE; nothing must be reached."""
    for load, seeding in (files_load(bench), rows_load(bench)):
        with prepared(load, len(PRODUCT_BATCHES), *seeding):
            rates = {batch: load.product(batch).whole for batch in PRODUCT_BATCHES}
        bench.say(f"{load.name}: product by batch size: {_by_batch(rates)}")
    return []


def _in_turn(load: Load, seeding: list[str], repeats: int) -> tuple[list[Run], list[Run]]:
    """Runs of the product, at its default batch size, and of the floor at its best one."""
    product: list[Run] = []
    bare: list[Run] = []
    with prepared(load, len(FLOOR_BATCHES) + 2 * repeats, *seeding):
        sweep = {batch: load.floor(batch).whole for batch in FLOOR_BATCHES}
        best = max(sweep, key=lambda batch: sweep[batch])
        load.bench.say(f"{load.name}: floor by batch size: {_by_batch(sweep)}")
        for _ in range(repeats):
            product.append(load.product())
            bare.append(load.floor(best))
    for side, runs in (("product", product), ("floor", bare)):
        shown = ", ".join(f"{run.whole:,.0f} (net {run.net:,.0f})" for run in runs)
        load.bench.say(f"{load.name}: {side}: {shown} /s")
    return product, bare


def _whole(runs: Sequence[Run]) -> float:
    return statistics.median(run.whole for run in runs)


def _by_batch(rates: Mapping[int, float]) -> str:
    return ", ".join(f"{batch}: {rate:,.0f} /s" for batch, rate in rates.items())
