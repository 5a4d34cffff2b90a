"""A stretch of time that replicas refuse to read, for its tombstones, is read in slices (defect j, faults.md 38)."""

from __future__ import annotations

import pytest

from strata_daemon.stores.cassandra.bulk import ReadRefused, Row
from strata_daemon.stores.cassandra.gc_floors import START_MS
from strata_daemon.stores.cassandra.slices import LEFT_MAX, NARROWEST_MS, ROWS_A_PAGE, Key, pages

AT_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Partition:
    """Rows and tombstones in the order of their keys; a read that steps over too many tombstones fails."""

    def __init__(self, live: list[Key], dead: list[Key], most_dead: int) -> None:
        self.live, self.dead, self.most_dead = sorted(live), sorted(dead), most_dead
        self.reads = 0

    def read(self, key: Key, until_ms: int) -> list[Row]:
        self.reads += 1
        rows = [each for each in self.live if each > key and each[0] <= until_ms][:ROWS_A_PAGE]
        end = rows[-1] if len(rows) == ROWS_A_PAGE else (until_ms + 1, "")
        if sum(key < each < end for each in self.dead) > self.most_dead:
            raise ReadRefused("too many tombstones")
        return list(rows)

    def all(self, after: Key = (START_MS, ""), until_ms: int = AT_MS + 10 * DAY_MS) -> list[Row]:
        return [row for page in pages(self.read, "t", after, until_ms) for row in page]


def test_a_partition_that_can_be_read_is_read_in_pages() -> None:
    live = [(AT_MS + i, f"{i}") for i in range(3 * ROWS_A_PAGE + 7)]
    partition = Partition(live, [], 0)
    assert partition.all() == live
    assert partition.reads == 4


def test_every_row_among_many_tombstones_is_found_once_and_in_order() -> None:
    dead = [(AT_MS + i * 50_000, f"d{i}") for i in range(3000)]
    live = [(AT_MS + i * 1_000_000, f"l{i}") for i in range(150)]
    partition = Partition(live, dead, 100)
    assert partition.all() == live
    assert partition.reads < 300


def test_rows_of_one_instant_at_the_edge_of_a_slice_are_found_once() -> None:
    dead = [(AT_MS + i, f"d{i}") for i in range(0, DAY_MS, 40_000)]
    live = [(AT_MS + DAY_MS // 2, oid) for oid in ("", "a", "\uffff")]
    assert Partition(live, dead, 50).all((AT_MS, ""), AT_MS + DAY_MS) == live


def test_a_read_goes_on_behind_the_key_that_was_reached() -> None:
    live = [(AT_MS, "a"), (AT_MS, "b"), (AT_MS + 1, "a")]
    assert Partition(live, [], 0).all((AT_MS, "a")) == live[1:]


def test_a_second_that_cannot_be_read_is_left_and_the_rest_is_read(caplog: pytest.LogCaptureFixture) -> None:
    dead = [(AT_MS + DAY_MS, f"d{i}") for i in range(200)]
    live = [(AT_MS, "before"), (AT_MS + 2 * DAY_MS, "behind")]
    assert Partition(live, dead, 100).all() == live
    assert [record.getMessage() for record in caplog.records] == ["gc entries not readable"]


def test_a_partition_that_cannot_be_read_at_all_ends_the_read() -> None:
    """Not tombstones then: a read is given up, rather than each second of ten days tried."""
    reads = 0

    def broken(_key: Key, _until_ms: int) -> list[Row]:
        nonlocal reads
        reads += 1
        raise ReadRefused("corrupt")

    with pytest.raises(ReadRefused):
        list(pages(broken, "t", (START_MS, ""), AT_MS))
    assert reads < 100 + LEFT_MAX * 3
    assert NARROWEST_MS >= 1000
