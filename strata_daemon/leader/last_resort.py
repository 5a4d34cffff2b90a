"""Pushes the process's last resort further out for as long as the timer thread turns (design.md section 4).

An interpreter that hangs as a whole does not push it: then the process dumps every stack and leaves with code 1. A
pause of the machine past that moment ends the process at its waking.
"""

from __future__ import annotations

from strata_daemon.base.runtime import Runtime

REARM_S = 5.0  # far less than the shortest TTL + wait


class LastResort:
    """`after_s`: how long after the last turn the process leaves. Owned by the timer thread."""

    def __init__(self, runtime: Runtime, after_s: float) -> None:
        self._runtime = runtime
        self._after_s = after_s
        self._armed_at: float | None = None

    def keep(self, now: float, *, is_needed: bool) -> None:
        """`is_needed`: the process holds, or tries for, some lease."""
        if not is_needed:
            self.call_off()
        elif self._armed_at is None or now - self._armed_at >= REARM_S:
            self._armed_at = now
            self._runtime.last_resort(now + self._after_s)

    def call_off(self) -> None:
        if self._armed_at is not None:
            self._armed_at = None
            self._runtime.last_resort(None)
