"""Where the next read of a partition of the gc queue begins: pure arithmetic (defect j)."""

from __future__ import annotations

from strata_daemon.stores.cassandra.gc_floors import LAG_MS, LAG_READ_S, START_MS, SWEEP_S, Floors

CUTOFF_MS = 1_800_000_000_000


def test_a_shard_that_is_not_known_is_read_from_its_beginning() -> None:
    floors = Floors()
    assert floors.start_ms("r", 7, 0.0) == START_MS
    assert floors.due_sweep("r", [7], 0.0) == [7]


def test_after_a_sweep_a_read_begins_where_the_last_one_ended() -> None:
    floors = Floors()
    floors.read_up_to("r", 7, START_MS, CUTOFF_MS, 0.0)
    assert floors.start_ms("r", 7, 1.0) == CUTOFF_MS
    assert floors.due_sweep("r", [7], 1.0) == []
    floors.read_up_to("r", 7, CUTOFF_MS, CUTOFF_MS + 5, 2.0)
    assert floors.start_ms("r", 7, 3.0) == CUTOFF_MS + 5


def test_now_and_then_a_read_begins_an_hour_further_back() -> None:
    """For gateways whose clock lags, for hints, for late writes."""
    floors = Floors()
    floors.read_up_to("r", 7, START_MS, CUTOFF_MS, 0.0)
    assert floors.start_ms("r", 7, LAG_READ_S) == CUTOFF_MS - LAG_MS
    floors.read_up_to("r", 7, CUTOFF_MS - LAG_MS, CUTOFF_MS, LAG_READ_S)
    assert floors.start_ms("r", 7, LAG_READ_S + 1) == CUTOFF_MS


def test_a_read_that_began_at_the_floor_does_not_count_as_one_that_went_back() -> None:
    floors = Floors()
    floors.read_up_to("r", 7, START_MS, CUTOFF_MS, 0.0)
    floors.read_up_to("r", 7, CUTOFF_MS, CUTOFF_MS + 9, LAG_READ_S - 1)
    assert floors.start_ms("r", 7, LAG_READ_S) == CUTOFF_MS + 9 - LAG_MS


def test_once_a_day_everything_is_swept() -> None:
    floors = Floors()
    floors.read_up_to("r", 7, START_MS, CUTOFF_MS, 0.0)
    assert floors.due_sweep("r", [7], SWEEP_S - 1) == []
    assert floors.due_sweep("r", [7], SWEEP_S) == [7]
    assert floors.start_ms("r", 7, SWEEP_S) == START_MS


def test_a_lease_taken_anew_forgets_its_shards_and_no_others() -> None:
    floors = Floors()
    for shard in (7, 8):
        floors.read_up_to("r", shard, START_MS, CUTOFF_MS, 0.0)
    floors.forget("r", [7])
    assert floors.due_sweep("r", [7, 8], 1.0) == [7]


def test_a_read_that_did_not_begin_at_the_beginning_makes_no_floor() -> None:
    """A pass that was begun before `forget` and ends after it must not count for the new term."""
    floors = Floors()
    floors.read_up_to("r", 7, CUTOFF_MS, CUTOFF_MS + 1, 0.0)
    assert floors.due_sweep("r", [7], 1.0) == [7]


def test_what_could_not_be_set_aside_is_met_by_the_next_read_and_by_a_count() -> None:
    floors = Floors()
    floors.begin_read("r", 7)
    floors.hold("r", 7, 1_000)
    floors.hold("r", 7, 2_000)
    floors.read_up_to("r", 7, START_MS, CUTOFF_MS, 0.0)
    assert floors.start_ms("r", 7, 1.0) == 999
    floors.begin_read("r", 7)
    floors.read_up_to("r", 7, 999, CUTOFF_MS, 2.0)
    assert floors.start_ms("r", 7, 3.0) == CUTOFF_MS
    floors.hold("r", 7, 3_000)
    assert floors.start_ms("r", 7, 4.0) == 2_999, "held after its window was read to the end"
