"""Holders of ours that are over, but whose row a late request may still bring back (design.md section 4, V2).

Each has an insert that was never answered, or a release that stayed unknown. Remembered for the life of the process:
it grows by one for each attempt that times out, and an attempt needs a good read first, so a dead store adds nothing.
Owned by the timer thread.
"""

from __future__ import annotations

from strata_daemon.leader.store import Release


class Orphans:
    def __init__(self) -> None:
        self._holders: set[str] = set()

    def remember(self, holder: str) -> None:
        self._holders.add(holder)

    def claim(self, lease: str, holder: str | None) -> list[Release]:
        """What to send when a row of `lease` bears `holder`: its removal, when that is an attempt of ours that is
        over; else nothing."""
        return [Release(lease, holder, 0)] if holder is not None and holder in self._holders else []
