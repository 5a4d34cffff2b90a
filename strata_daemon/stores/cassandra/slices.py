"""Reads a long stretch of time of one partition, page by page, in slices that the replicas will read.

Acked entries leave tombstones for ten days, and a read that passes over a hundred thousand of them fails (defect j,
V1). A slice that fails is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from strata_daemon.base import log
from strata_daemon.stores.cassandra.bulk import ReadRefused, Row

ROWS_A_PAGE = 500
NARROWEST_MS = 1000
LEFT_MAX = 20
FIRST_MS = 1_500_000_000_000  # 2017: before the first Strata, so that no halving is lost on the time before
LAST_OID = "\U0010ffff"
Key = tuple[int, str]  # enqueued_at_ms, oid

ReadPage = Callable[[Key, int], list[Row]]


def pages(read: ReadPage, table: str, after: Key, until_ms: int) -> Iterator[list[Row]]:
    """Rows behind `after` up to `until_ms`, oldest first. `read` gives up to ROWS_A_PAGE rows behind a key, up to an
    instant; each begins with its enqueued_at in milliseconds and its oid. Raises StoreUnavailable.

    A second that they still refuse is left, said, and tried again with the next sweep: no gateway queues a hundred
    thousand entries a second, so tombstones are not the reason. Raises ReadRefused when that goes on.
    """
    waiting = [(after, until_ms)]
    left = 0
    while waiting:
        key, end_ms = waiting.pop()
        try:
            rows = read(key, end_ms)
        except ReadRefused as exc:
            start_ms = max(key[0], FIRST_MS)
            if end_ms - start_ms > NARROWEST_MS:
                middle_ms = (start_ms + end_ms) // 2
                # What bears the middle instant belongs to the first half, whatever its oid.
                waiting += [((middle_ms, LAST_OID), end_ms), (key, middle_ms)]
                continue
            left += 1
            if left > LEFT_MAX:
                raise
            log.logger("gc").error(
                "gc entries not readable", extra={"table": table, "at_ms": end_ms, "error": str(exc)}
            )
            continue
        if len(rows) == ROWS_A_PAGE:
            waiting.append(((rows[-1][0], rows[-1][1]), end_ms))
        if rows:
            yield rows
