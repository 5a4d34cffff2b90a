"""How soon a process answers: an unknown worker is refused, a first term begins."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from figure import Bench, Figure, at_most
from processes import END_S, LEADS, PRODUCT, Failed, environment, floor, settings_for, timed

REPEATS, QUICK_REPEATS = 7, 3
REFUSED = 2
REFUSAL_S, FIRST_TERM_S = 0.7, 1.5


def unknown_worker(bench: Bench) -> list[Figure]:
    command = _installed() or list(PRODUCT)
    took, floors = _in_turn(
        bench, "unknown worker", lambda _: _refusal([*command, "run"]), lambda _: timed(floor("libraries", "settings"))
    )
    middle, least = statistics.median(took), statistics.median(floors)
    return [Figure("unknown worker refused, median", "s", middle, least, at_most(REFUSAL_S))]


def first_term(bench: Bench) -> list[Figure]:
    def product(state: Path) -> float:
        return _to_term([*PRODUCT, "run"], settings_for(state))

    def least(state: Path) -> float:
        return _to_term(floor("first_term", state), {})

    took, floors = _in_turn(bench, "first term", product, least)
    name = "start to first term"
    return [
        Figure(f"{name}, median", "s", statistics.median(took), statistics.median(floors), at_most(FIRST_TERM_S)),
        Figure(f"{name}, max", "s", max(took), max(floors), at_most(FIRST_TERM_S)),
    ]


def _installed() -> list[str] | None:
    """The console script beside the interpreter, since that is what people call."""
    script = Path(sys.executable).parent / "strata-daemon"
    return [str(script)] if script.exists() else None


def _in_turn(
    bench: Bench, name: str, product: Callable[[Path], float], least: Callable[[Path], float]
) -> tuple[list[float], list[float]]:
    """Seconds of the product and of the floor, each run in a fresh folder. One run of each goes before, uncounted:
    the first one reads the code from the disk."""
    took: dict[str, list[float]] = {"product": [], "floor": []}
    for index in range(bench.pick(REPEATS, QUICK_REPEATS) + 1):
        for side, measure in (("product", product), ("floor", least)):
            folder = bench.folder / f"{name.replace(' ', '-')}-{side}-{index}"
            folder.mkdir()
            took[side].append(measure(folder))
    for side, values in took.items():
        del values[0]
        bench.say(f"{name}: {side}: {', '.join(f'{value:.3f}' for value in values)} s")
    return took["product"], took["floor"]


def _refusal(command: Sequence[str]) -> float:
    began = time.monotonic()
    done = subprocess.run(
        command,
        env=environment({"STRATA_WORKERS": "gc,nope"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=END_S,
        check=False,
    )
    took_s = time.monotonic() - began
    words = done.stdout.replace("'", " ").replace('"', " ").replace(",", " ").replace(".", " ").split()
    if done.returncode != REFUSED or "nope" not in words or "gc" not in words:
        raise Failed(f"an unknown worker gave code {done.returncode} and the words:\n{done.stdout[-2000:]}")
    return took_s


def _to_term(command: Sequence[str], settings: Mapping[str, str]) -> float:
    """Seconds from the spawn to the line that says that a term began. The process is ended afterwards."""
    began = time.monotonic()
    popen = subprocess.Popen(command, env=environment(settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said: list[str] = []
    try:
        for line in popen.stdout or ():
            took_s = time.monotonic() - began
            said.append(line.decode(errors="replace"))
            if _is_term(said[-1]):
                return took_s
        raise Failed(f"no term began; the process said:\n{''.join(said)[-2000:]}")
    finally:
        popen.terminate()
        popen.communicate(timeout=END_S)


def _is_term(line: str) -> bool:
    try:
        return bool(json.loads(line)["msg"] == LEADS)
    except (ValueError, KeyError, TypeError):
        return False
