"""A question that may hang, and readers that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Thread
from strata_daemon.ports.gc_queue import QueueDepth
from strata_daemon.supervision.depth import DepthGauge
from strata_daemon.supervision.look import Look, Seen
from tests.unit.leader.by_hand import HandRuntime


class HoldingRuntime(HandRuntime):
    """What is spawned runs at once, or when the test lets it: until then it hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.held: list[Callable[[], None]] = []
        self.spawned: list[str] = []

    def spawn(self, name: str, target: Callable[[], None]) -> Thread:
        self.spawned.append(name)
        if self.holds:
            self.held.append(target)
        else:
            target()
        thread: Any = None
        return thread


def _look(runtime: HoldingRuntime, answers: list[str | None]) -> Look[str]:
    return Look(runtime, "look", lambda: answers.pop(0), fresh_s=5.0, wait_s=0.25)


def test_an_answer_serves_all_readers_while_it_is_fresh() -> None:
    runtime = HoldingRuntime()
    look = _look(runtime, ["one", "two"])
    assert [look.read().answer for _ in range(3)] == ["one"] * 3
    runtime.at += 5.0
    assert look.read() == Seen("two", 105.0, None)


def test_a_question_that_hangs_is_asked_once_and_the_answer_before_it_stands() -> None:
    runtime = HoldingRuntime()
    look = _look(runtime, ["one", "two"])
    look.read()
    runtime.holds = True
    for _ in range(10):
        runtime.at += 5.0
        assert look.read() == Seen("one", 100.0, 105.0)
    assert len(runtime.held) == 1
    runtime.held[0]()
    assert look.read().answer == "two"


def test_a_question_without_an_answer_changes_nothing() -> None:
    runtime = HoldingRuntime()
    look = _look(runtime, ["one", None])
    look.read()
    runtime.at += 5.0
    assert look.read() == Seen("one", 100.0, None)


class ScriptedQueue:
    """A queue of which only the depth is asked; None: the store is away."""

    def __init__(self, *depths: QueueDepth | None) -> None:
        self.depths = list(depths)

    def depth(self, region: str) -> QueueDepth:
        depth = self.depths.pop(0)
        if depth is None:
            raise StoreUnavailable("away")
        return depth


def test_a_depth_that_cannot_be_read_is_told_once_and_shown_as_it_was() -> None:
    runtime, told = HoldingRuntime(), list[str]()
    full = QueueDepth(9, None, {})
    queue: Any = ScriptedQueue(full, None, None, full, None)
    gauge = DepthGauge(runtime, queue, "r", told.append)
    seen = []
    for _ in range(5):
        seen.append(gauge.read())
        runtime.at += 5.0
    assert seen == [(full, 100.0), (full, 100.0), (full, 100.0), (full, 115.0), (full, 115.0)]
    assert told == ["away", "away"]
