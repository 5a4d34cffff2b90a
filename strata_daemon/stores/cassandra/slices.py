"""Reads a long stretch of time of one partition in slices that the replicas will read.

Acked entries leave tombstones for ten days, and a read that passes over a hundred thousand of them fails (defect j,
V1). A slice that fails is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from strata_daemon.base import log
from strata_daemon.stores.cassandra.ring import ReadRefused, Row

FIRST_MS = 1_500_000_000_000  # 2017: before the first Strata; what is older is read in one slice
TOMBSTONES_MS = 10 * 86_400_000
SLICE_MS = 3_600_000
NARROWEST_MS = 1000
LEFT_MAX = 20

Read = Callable[[int, int], list[Row]]


def slices(read: Read, table: str, from_ms: int, until_ms: int) -> Iterator[list[Row]]:
    """Rows in (from, until], oldest first. `read` reads one such stretch. Raises StoreUnavailable.

    A second that they still refuse is left, said, and tried again with the next sweep: no gateway queues a hundred
    thousand entries a second, so tombstones are not the reason. Raises ReadRefused when that goes on.
    """
    waiting = cuts(from_ms, until_ms)
    left = 0
    while waiting:
        start_ms, end_ms = waiting.pop(0)
        try:
            rows = read(start_ms, end_ms)
        except ReadRefused as exc:
            if end_ms - start_ms > NARROWEST_MS:
                middle_ms = (start_ms + end_ms) // 2
                waiting[:0] = [(start_ms, middle_ms), (middle_ms, end_ms)]
                continue
            left += 1
            if left > LEFT_MAX:
                raise
            fields = {"table": table, "at_ms": end_ms, "error": str(exc)}
            log.logger("gc").error("gc entries not readable", extra=fields)
            continue
        if rows:
            yield rows


def cuts(from_ms: int, until_ms: int) -> list[tuple[int, int]]:
    """The last ten days, in which tombstones live, by the hour; the time before at once."""
    recent_ms = max(from_ms, until_ms - TOMBSTONES_MS)
    found = []
    start_ms = from_ms
    for end_ms in (FIRST_MS, recent_ms):
        if start_ms < end_ms <= until_ms:
            found.append((start_ms, end_ms))
            start_ms = end_ms
    while start_ms < until_ms:
        end_ms = min(start_ms + SLICE_MS, until_ms)
        found.append((start_ms, end_ms))
        start_ms = end_ms
    return found
