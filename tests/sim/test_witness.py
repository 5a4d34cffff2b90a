"""The witness itself: it must see what is broken, or the simulation proves nothing."""

from __future__ import annotations

import pytest

from strata_daemon.leader import context, timing
from tests.sim.kit.fleet import Fleet

LEASE = "gc-leader-0"


@pytest.fixture
def made() -> Fleet:
    return Fleet(seed=7)


def _cut_the_leader(made: Fleet) -> None:
    for name in "ab":
        made.start(name)
    made.run_until(lambda: made.leader() is not None, 10.0)
    leader = made.leader()
    assert leader is not None
    made.feed(20_000)
    made.run(3.0)
    made.nodes[leader].leases.is_cut = True
    made.run(60.0)


def test_it_sees_a_leader_that_works_past_its_ttl(made: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing.Timing, "window_s", property(lambda self: self.ttl_s + 20.0))
    try:
        _cut_the_leader(made)
        assert any("works under" in fault or "at once" in fault for fault in made.witness.faults)
    finally:
        made.world.close()


def test_it_sees_a_runner_that_is_told_nothing(made: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context.LeasedContext, "check", lambda self, for_s=0.0: None)
    monkeypatch.setattr(context.LeasedContext, "is_stopping", lambda self: False)
    try:
        _cut_the_leader(made)
        assert made.witness.faults
    finally:
        made.world.close()


def test_it_sees_nothing_wrong_when_nothing_is(made: Fleet) -> None:
    try:
        _cut_the_leader(made)
        assert made.witness.faults == []
        assert len({stamp.node for stamp in made.witness.entered}) == 2
    finally:
        made.world.close()
