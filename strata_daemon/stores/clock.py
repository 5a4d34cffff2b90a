"""The second clock of an embedded store: the wall clock at start plus CLOCK_BOOTTIME since (design.md section 4)."""

from __future__ import annotations

from datetime import datetime, timedelta

from strata_daemon.base.runtime import Runtime


class StartClock:
    """Cannot be set: so a host clock that was set while the process runs shows as a difference."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._wall = runtime.wall()
        self._at = runtime.now()

    def wall(self) -> datetime:
        return self._wall + timedelta(seconds=self._runtime.now() - self._at)
