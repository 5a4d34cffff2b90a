"""When an entry whose deletion failed is tried again: pure (defect e: it neither spins nor blocks)."""

from __future__ import annotations

from strata_daemon.ports.chunks import UNAVAILABLE
from strata_daemon.ports.gc_queue import GCEntry, SetAside

PAUSES_S = (60, 300, 1800, 7200)
# A cluster that is away comes back: its entries do not wait for hours then.
UNAVAILABLE_MAX_S = 300


def next_try(entry: GCEntry, reason: str, tries_before: int, now_ms: int) -> SetAside:
    """The record of one more failure. `now_ms`: wall time in milliseconds since 1970."""
    pause_s = PAUSES_S[min(tries_before, len(PAUSES_S) - 1)]
    if reason == UNAVAILABLE:
        pause_s = min(pause_s, UNAVAILABLE_MAX_S)
    return SetAside(entry, reason, tries_before + 1, now_ms + pause_s * 1000)
