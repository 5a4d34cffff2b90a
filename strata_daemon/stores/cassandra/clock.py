"""The ring's idea of now, by whichever node answers: a second clock beside the host's (design.md, wall clocks)."""

from __future__ import annotations

from datetime import UTC, datetime

from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import READ_CLOCK


class CassandraClock:
    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def wall(self) -> datetime:
        ((milliseconds,),) = self._ring.read(READ_CLOCK)
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
