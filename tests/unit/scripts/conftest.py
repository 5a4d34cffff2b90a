"""Rings whose nodes are `sleep`: everything of a ring but Java."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

from ring.errors import RingError
from ring.options import Options
from ring.processes import Process, kill
from ring.ring import Ring
from ring.state import load


class SleepingNodes:
    """A recipe whose nodes sleep. By default every node sees all the others; `seen` says otherwise."""

    def __init__(self) -> None:
        self.prepared: list[list[int]] = []
        self.seen: dict[int, int | None] = {}
        self.commands: dict[int, list[str]] = {}
        self.refusal = ""

    def prepare(self, options: Options, numbers: Sequence[int]) -> None:
        if self.refusal:
            raise RingError(self.refusal)
        self.prepared.append(list(numbers))

    def command(self, options: Options, number: int) -> tuple[Sequence[str], Mapping[str, str]]:
        return self.commands.get(number, ["sleep", "600"]), {"PATH": os.environ["PATH"]}

    def sees(self, options: Options, number: int) -> int | None:
        return self.seen.get(number, options.nodes)


class Kit:
    """One folder for a ring, and what was said about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe = SleepingNodes()
        self.said: list[str] = []
        self.ring = self.another()

    def another(self) -> Ring:
        """The same ring, as another call opens it."""
        return Ring(self.folder, self.recipe, self.said.append)

    def processes(self) -> dict[int, Process]:
        state = load(self.folder)
        return dict(state.processes) if state else {}

    def close(self) -> None:
        try:
            left = self.processes()
        except RingError:
            return  # the test broke the file, and has ended its processes
        for process in left.values():
            kill(process)


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    made = Kit(tmp_path / "ring")
    yield made
    made.close()
