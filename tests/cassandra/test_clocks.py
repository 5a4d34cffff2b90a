"""Clocks on a ring: those of its nodes, and a host's that is wrong. Nodes with skewed clocks cannot be made here, since
they all run on one kernel: the arithmetic of skew is among the unit tests."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from strata_daemon.stores.cassandra.skew import LEAST_S, SkewMeter, allowed_s, spread_s
from tests.cassandra.kit.election import Elections, QuietRuntime
from tests.cassandra.kit.fleet import WORK_S, Fleet
from tests.process.kit import eventually
from tests.rings import LiveRing

MILLISECOND_S = 0.001  # what a node tells of its clock


def test_the_clocks_of_one_machines_nodes_are_found_to_agree(elections: Elections, ring: LiveRing) -> None:
    """faults.md 9: asked by address, each node for itself."""
    measured: list[float] = []
    meter = SkewMeter(elections.candidate("node-a").ring, measured.append)
    meter.measure()
    assert meter.offsets.keys() == set(ring.hosts)
    errors_s = sum(sorted(offset.error_s for offset in meter.offsets.values())[-2:])
    assert spread_s(meter.offsets) <= errors_s + 2 * MILLISECOND_S
    assert spread_s(meter.offsets) < 0.05
    assert measured == [allowed_s(meter.offsets)] == [LEAST_S]


class WrongClock(QuietRuntime):
    """A host whose wall clock is set wrong; what counts for leases runs on."""

    ahead_s = 0.0

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.ahead_s)


@pytest.mark.parametrize("hours", [1, -1], ids=["ahead", "behind"])
def test_a_host_clock_that_is_an_hour_wrong_stops_deletions_by_age_but_costs_no_lease(
    fleet: Fleet, hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Bad input: an hour ahead everything would look old enough, an hour behind nothing. faults.md 8: leases do not
    ask wall clocks."""
    caplog.set_level("INFO", "strata_daemon")
    runtime = WrongClock()
    runtime.ahead_s = hours * 3600.0
    node = fleet.start("node-a", runtime=runtime)
    fleet.wait_leader(10.0)
    work = {entry.oid for entry in fleet.feed(20, "aged")}
    eventually(lambda: "clocks disagree" in caplog.messages, 5.0)
    assert not fleet.deleted()
    runtime.ahead_s = 0.0
    eventually(lambda: work <= fleet.deleted(), WORK_S)
    assert caplog.messages.count("clocks disagree") == 1 and "clocks agree again" in caplog.messages
    assert node.terms() == 1.0
