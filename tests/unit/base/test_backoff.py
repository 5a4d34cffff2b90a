"""Back-off of workers and shards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strata_daemon.base.backoff import HEALTHY_S, STEPS_S, BackOff


def _pauses(runs_s: list[float]) -> list[float]:
    state, pauses = BackOff(), []
    for ran_s in runs_s:
        state, pause_s = state.after_crash(ran_s)
        pauses.append(pause_s)
    return pauses


def test_crashes_at_once_pause_1_5_30_120_seconds_and_stay_there() -> None:
    assert _pauses([0.0] * 6) == [1.0, 5.0, 30.0, 120.0, 120.0, 120.0]


def test_a_crash_once_a_day_always_pauses_one_second() -> None:
    assert _pauses([86_400.0] * 10) == [1.0] * 10


def test_five_healthy_minutes_of_the_runner_reset_the_step() -> None:
    assert _pauses([0.0, 0.0, HEALTHY_S, 0.0]) == [1.0, 5.0, 1.0, 5.0]
    assert _pauses([0.0, 0.0, HEALTHY_S - 0.1]) == [1.0, 5.0, 30.0]


def test_a_clean_return_goes_round_after_the_first_step() -> None:
    state, _ = BackOff().after_crash(0.0)
    assert state.after_return() == (BackOff(), 1.0)


@given(st.lists(st.floats(0, 1e6), max_size=50))
def test_every_pause_is_a_step_and_only_a_healthy_run_shortens_it(runs_s: list[float]) -> None:
    pauses = _pauses(runs_s)
    assert all(pause_s in STEPS_S for pause_s in pauses)
    for before, after, ran_s in zip(pauses, pauses[1:], runs_s[1:], strict=False):
        assert after >= before or ran_s >= HEALTHY_S
