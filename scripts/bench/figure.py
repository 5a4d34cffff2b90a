"""What a measurement gives: a figure, its floor, what it must reach, and the table of them. Measures nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HEADINGS = ("figure", "measured", "floor", "ratio", "must reach", "")


@dataclass(frozen=True, slots=True)
class Bound:
    """What a figure must reach. With `of_floor`, `limit` is a share of the floor; else it is in the figure's unit."""

    is_least: bool
    limit: float
    of_floor: bool = False

    def is_met(self, measured: float, floor: float | None) -> bool:
        limit = self.limit
        if self.of_floor:
            if floor is None:
                return False
            limit *= floor
        return measured >= limit if self.is_least else measured <= limit

    def shown(self, unit: str) -> str:
        sign = ">=" if self.is_least else "<="
        return f"{sign} {self.limit:g} x floor" if self.of_floor else f"{sign} {_number(self.limit)} {unit}"


def at_least(limit: float) -> Bound:
    return Bound(True, limit)


def at_least_of_floor(share: float) -> Bound:
    return Bound(True, share, of_floor=True)


def at_most(limit: float) -> Bound:
    return Bound(False, limit)


def at_most_of_floor(share: float) -> Bound:
    return Bound(False, share, of_floor=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value beside its floor, in one unit. Without a floor of its own, `floor` is None; without a bound it
    is reported, and nothing must be reached."""

    name: str
    unit: str
    measured: float
    floor: float | None
    bound: Bound | None

    @property
    def is_met(self) -> bool:
        return self.bound is None or self.bound.is_met(self.measured, self.floor)

    def cells(self) -> tuple[str, ...]:
        floor = "-" if self.floor is None else f"{_number(self.floor)} {self.unit}"
        ratio = f"{self.measured / self.floor:.2f}" if self.floor else "-"
        verdict = "reported" if self.bound is None else "ok" if self.is_met else "MISSED"
        must = "-" if self.bound is None else self.bound.shown(self.unit)
        return self.name, f"{_number(self.measured)} {self.unit}", floor, ratio, must, verdict


@dataclass(frozen=True, slots=True)
class Bench:
    """What every measurement gets: a fresh folder for its files, whether a look is enough, and where remarks go."""

    folder: Path
    is_quick: bool
    say: Callable[[str], None]

    def pick(self, whole: int, quick: int) -> int:
        return quick if self.is_quick else whole


def table(figures: Sequence[Figure]) -> str:
    rows = [HEADINGS, *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def spread(values: Sequence[float], unit: str) -> str:
    """The distribution of `values` in one line."""
    ordered = sorted(values)
    marks = [("min", 0.0), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)]
    shown = ", ".join(f"{name} {_number(ordered[round(part * (len(ordered) - 1))])}" for name, part in marks)
    return f"{len(ordered)} values in {unit}: {shown}"


def _number(value: float) -> str:
    """Three digits that matter, or all of those before the point."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
