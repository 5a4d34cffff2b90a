"""What a look at the process finds, and what of it makes the process unhealthy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from strata_daemon.leader.cycle import FINISHED, RUNNING, STOPPED, WAITING, CycleState
from strata_daemon.leader.handle import TermHandle, TermView
from strata_daemon.leader.term import Phase
from strata_daemon.supervision.snapshot import Beat, Snapshot, SnapshotSource, TermState
from tests.unit.leader.by_hand import Flag, HandRuntime

HELD = TermView(Phase.HELD, "n/1/u", 28.0, token=7, began_at=90.0, renewed_at=95.0, valid_until=123.0)
WELL = Snapshot(
    at=100.0,
    node_id="n",
    workers={"gc": CycleState(RUNNING, 90.0)},
    terms=[TermState("gc", "gc-leader-0", HELD)],
    dead=[],
    timer_beat_at=99.5,
    depth=None,
    depth_at=None,
)


def _with_term(view: TermView) -> Snapshot:
    return replace(WELL, terms=[TermState("gc", "gc-leader-0", view)])


@dataclass
class ScriptedThread:
    """A thread whose end a test decides."""

    name: str
    lives: bool = True

    def is_alive(self) -> bool:
        return self.lives

    def join(self, timeout_s: float | None = None) -> bool:
        return not self.lives

    def stack(self) -> str:
        return ""


def _look(threads: Sequence[ScriptedThread], phase: str = RUNNING, handles: Sequence[TermHandle] = ()) -> Snapshot:
    return SnapshotSource(
        runtime=HandRuntime(),
        node_id=lambda: "n",
        workers=lambda: {"gc": CycleState(phase, 90.0)},
        handles=lambda: handles,
        threads=lambda: threads,
        timer_beat_at=lambda: 100.0,
        depth=lambda: (None, None),
    ).look()


def test_a_healthy_process_has_no_problems() -> None:
    assert WELL.problems(5.0) == []


def test_a_dead_thread_is_a_problem_by_its_name() -> None:
    """faults.md 22."""
    assert _look([ScriptedThread("lease-timer", lives=False)]).problems(5.0) == ["Thread lease-timer is dead."]


def test_a_worker_thread_that_died_at_work_is_a_problem() -> None:
    """faults.md 22: said by the thread, not by the phase that its worker claims."""
    assert _look([ScriptedThread("worker-gc", lives=False)], RUNNING).dead == ["worker-gc"]


@pytest.mark.parametrize("phase", [FINISHED, STOPPED])
def test_the_thread_of_a_worker_that_is_done_may_end(phase: str) -> None:
    assert _look([ScriptedThread("worker-gc", lives=False)], phase).problems(5.0) == []


def test_a_timer_that_stands_still_is_a_problem() -> None:
    assert "has not turned for 6.0 s" in replace(WELL, timer_beat_at=94.0).problems(5.0)[0]
    assert replace(WELL, timer_beat_at=95.0).problems(5.0) == []


def test_each_beat_has_its_own_limit() -> None:
    snapshot = replace(WELL, beats=[Beat("heartbeat", 80.0, 30.0), Beat("watchdog", 80.0, 10.0)])
    assert snapshot.problems(5.0) == ["Thread watchdog has not turned for 20.0 s."]


def test_a_lost_term_whose_runner_is_inside_is_a_problem() -> None:
    (problem,) = _with_term(replace(HELD, phase=Phase.LOST, left_at=97.0, reason="refused")).problems(5.0)
    assert "gc-leader-0 was lost 3.0 s ago (refused)" in problem and "still inside" in problem


def test_a_held_term_past_its_deadline_is_a_problem() -> None:
    assert _with_term(replace(HELD, valid_until=100.0)).problems(5.0) == ["Lease gc-leader-0 is past its deadline."]
    assert _with_term(replace(HELD, valid_until=100.1)).problems(5.0) == []


def test_only_a_held_term_counts_as_held() -> None:
    """Defect S2: what is lost or on its way out is claimed no more."""
    others = [phase for phase in Phase if phase is not Phase.HELD]
    assert [_with_term(replace(HELD, phase=phase)).held() for phase in others] == [[] for _ in others]
    assert len(WELL.held()) == 1


def test_a_look_copies_what_each_handle_shows() -> None:
    handle = TermHandle(HandRuntime(), "gc-leader-3", "gc", Flag())
    handle.publish(HELD)
    snapshot = _look([], WAITING, [handle])
    handle.publish(replace(HELD, phase=Phase.LOST, left_at=101.0))
    assert snapshot.terms == [TermState("gc", "gc-leader-3", HELD)]
