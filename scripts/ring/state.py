"""What is kept of a ring between two calls: its options and its processes, in one file; and the lock of its folder.

The file is replaced as a whole, so a reader needs no lock. Who starts or ends nodes holds the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ring.errors import RingError
from ring.options import Options
from ring.processes import Process

NAME = "ring.json"


@dataclass(frozen=True)
class State:
    options: Options
    processes: Mapping[int, Process] = field(default_factory=dict)  # by node, counted from 1; without the stopped

    def with_process(self, number: int, process: Process) -> State:
        return State(self.options, {**self.processes, number: process})


def load(folder: Path) -> State | None:
    """What was saved; None when there is no ring. Raises RingError when the file is not one of ours."""
    path = folder / NAME
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        values = json.loads(text)
        processes = {int(number): Process(**process) for number, process in values["processes"].items()}
        return State(Options.from_json(values["options"]), processes)
    except (ValueError, KeyError, TypeError, AttributeError, RingError) as exc:
        raise RingError(
            f"{path} does not say what runs here ({exc}). End the java processes of this ring yourself, "
            f"then remove {path}."
        ) from exc


def save(folder: Path, state: State) -> None:
    values = {
        "options": state.options.to_json(),
        "processes": {str(number): asdict(process) for number, process in state.processes.items()},
    }
    fresh = folder / f"{NAME}.new"
    with fresh.open("w") as sink:
        json.dump(values, sink, indent=1)
        sink.flush()
        os.fsync(sink.fileno())
    fresh.replace(folder / NAME)


@contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock file `path`; says so when it has to wait. A killed owner frees it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another call that works in {path.parent}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
