"""Which stores answer, asked by probes that must not hang with them."""

from __future__ import annotations

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.http.readiness import Readiness
from tests.unit.supervision.test_look import HoldingRuntime


class ScriptedStore:
    def __init__(self) -> None:
        self.is_down = False
        self.asked = 0

    def ask(self) -> None:
        self.asked += 1
        if self.is_down:
            raise StoreUnavailable("disk is gone")


def test_the_store_that_does_not_answer_is_named_and_the_other_is_not() -> None:
    fine, down = ScriptedStore(), ScriptedStore()
    down.is_down = True
    readiness = Readiness(HoldingRuntime(), {"metadata": fine.ask, "lease": down.ask})
    assert readiness.unready() == ["The lease store does not answer: disk is gone"]


def test_a_store_is_asked_once_a_second_however_many_ask() -> None:
    runtime, store = HoldingRuntime(), ScriptedStore()
    readiness = Readiness(runtime, {"metadata": store.ask})
    for _ in range(10):
        assert readiness.unready() == []
    assert store.asked == 1
    runtime.at += 1.0
    store.is_down = True
    assert len(readiness.unready()) == 1
    assert store.asked == 2


def test_a_store_that_was_never_seen_to_answer_is_not_ready() -> None:
    runtime = HoldingRuntime()
    runtime.holds = True
    readiness = Readiness(runtime, {"metadata": ScriptedStore().ask})
    assert readiness.unready() == ["The metadata store has not answered yet."]


def test_a_store_that_hangs_is_told_with_its_seconds_and_asked_no_second_time() -> None:
    runtime, store = HoldingRuntime(), ScriptedStore()
    readiness = Readiness(runtime, {"metadata": store.ask})
    assert readiness.unready() == []
    runtime.holds = True
    runtime.at += 1.0
    assert readiness.unready() == []  # it may still answer
    runtime.at += 4.0
    assert readiness.unready() == ["The metadata store has not answered for 4 s."]
    assert len(runtime.held) == 1
    runtime.held.pop()()
    runtime.holds = False
    assert readiness.unready() == []
