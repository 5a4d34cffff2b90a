"""A second clock beside the host's: ages that decide deletions are judged by the earlier of the two (design.md 4)."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class StoreClock(Protocol):
    def wall(self) -> datetime:
        """The store's idea of now, aware UTC. Raises StoreUnavailable."""
        ...
