"""What follows the end of a run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strata_daemon.leader.pace import Ending, Leg, Pace, next_pass


def test_a_loss_goes_round_at_once() -> None:
    _, pause_s = Pace().after(Leg(Ending.LOST, 10.0), 100.0, 30.0, 5.0)
    assert pause_s == 0.0


def test_a_second_loss_within_a_ttl_waits_one_poll() -> None:
    pace, _ = Pace().after(Leg(Ending.LOST, 10.0), 100.0, 30.0, 5.0)
    assert pace.after(Leg(Ending.LOST, 10.0), 129.9, 30.0, 5.0)[1] == 5.0
    assert pace.after(Leg(Ending.LOST, 10.0), 130.0, 30.0, 5.0)[1] == 0.0


def test_a_loss_neither_raises_nor_resets_the_step() -> None:
    pace, _ = Pace().after(Leg(Ending.CRASHED, 0.0), 0.0, 30.0, 5.0)
    pace, _ = pace.after(Leg(Ending.LOST, 1000.0), 50.0, 30.0, 5.0)
    assert pace.after(Leg(Ending.CRASHED, 0.0), 60.0, 30.0, 5.0)[1] == 5.0


def test_the_wait_for_the_lease_is_no_healthy_run() -> None:
    """Defect a: a standby that waited five minutes and crashed at once starts at the step where it was."""
    pace, _ = Pace().after(Leg(Ending.CRASHED, 0.0), 0.0, 30.0, 5.0)
    assert pace.after(Leg(Ending.CRASHED, 0.0), 1000.0, 30.0, 5.0)[1] == 5.0


def test_a_finished_run_goes_round_after_the_first_step() -> None:
    assert Pace().after(Leg(Ending.RETURNED, 3.0), 0.0, 30.0, 5.0)[1] == 1.0


@given(st.floats(0, 1e7), st.floats(0.01, 86_400))
def test_slots_that_ended_at_any_time_are_due_at_few_times(now: float, interval_s: float) -> None:
    ends = [now + interval_s * part / 100 for part in range(100)]
    due = [next_pass(end, interval_s) for end in ends]
    assert all(interval_s * 0.999 <= at - end <= interval_s * 1.08 for at, end in zip(due, ends, strict=True))
    assert len(set(due)) <= 18
