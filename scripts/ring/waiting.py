"""Waits until the nodes of a ring answer and see each other, and says meanwhile what it waits for. Starts nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ring.errors import RingError
from ring.processes import Fate

POLL_S = 0.3
SAY_EVERY_S = 5.0
SHOWN_LINES = 12


def views(sees: Callable[[int], int | None], numbers: Iterable[int]) -> dict[int, int | None]:
    """What each node sees, all asked at once, since a silent one takes seconds."""
    asked = list(numbers)
    if not asked:
        return {}
    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip(asked, pool.map(sees, asked), strict=True))


class Wait:
    """One wait for a ring. `fates` tells the processes at the moment, `sees` asks a node, `log` names a node's log."""

    def __init__(
        self,
        fates: Callable[[], Mapping[int, Fate]],
        sees: Callable[[int], int | None],
        log: Callable[[int], Path],
        say: Callable[[str], None],
    ) -> None:
        self._fates = fates
        self._sees = sees
        self._log = log
        self._say = say

    def until_ready(self, awaited: Iterable[int], timeout_s: float) -> None:
        """Wait until every running node sees all that run. Raises RingError when one of `awaited` ends before."""
        began = spoken = time.monotonic()
        needed = list(awaited)
        while True:
            fates = self._fates()
            for number in needed:
                if fates[number] in (Fate.GONE, Fate.FOREIGN):
                    raise RingError(f"node {number} ended before the ring was ready.\n{self._last_words(number)}")
            running = [number for number, fate in fates.items() if fate is Fate.RUNNING]
            seen = views(self._sees, running)
            late = {number: count for number, count in seen.items() if count is None or count < len(running)}
            if not late:
                return
            now = time.monotonic()
            if now - began > timeout_s:
                shown = self._last_words(min(late))
                raise RingError(f"not ready within {timeout_s:g} s: {_shown(late, len(running))}.\n{shown}")
            if now - spoken >= SAY_EVERY_S:
                spoken = now
                self._say(f"  {now - began:3.0f} s: {_shown(late, len(running))}")
            time.sleep(POLL_S)

    def _last_words(self, number: int) -> str:
        log = self._log(number)
        try:
            lines = log.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return f"It left no log in {log}."
        # The frames of a trace push its message out of sight.
        last = [line[:300] for line in lines if not line.startswith("\t")][-SHOWN_LINES:]
        head = f"Look at {log}; if it just breaks off, the kernel may have killed the node for memory (dmesg). It ends:"
        return "\n".join([head, *(f"  | {line}" for line in last)])


def _shown(late: Mapping[int, int | None], running: int) -> str:
    said = (
        f"node {number} does not answer yet" if count is None else f"node {number} sees {count} of {running} nodes"
        for number, count in sorted(late.items())
    )
    return ", ".join(said)
