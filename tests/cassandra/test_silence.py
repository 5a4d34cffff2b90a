"""No node answers, for a while or for long: a leader stops at its own deadline, and somebody leads again afterwards."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.cassandra.kit.election import RENEW_S, TTL_S, Elections
from tests.cassandra.kit.fleet import Fleet
from tests.cassandra.kit.proxy import Proxy
from tests.process.kit import eventually

LEASE = "gc-leader-0"
LATE_S = 0.5  # what a busy machine may take to wake a thread
CUT_S = 1.2 * TTL_S
AGAIN_S = TTL_S + 2.0  # a TTL, one retry and its jitter


def test_a_leader_whom_no_node_answers_is_told_at_its_own_deadline(elections: Elections, proxy: Proxy) -> None:
    """faults.md 2: the nodes accept and never answer, from a random moment on. No call may outlive the lease."""
    candidate = elections.candidate("node-a", proxy.hosts)
    handle = candidate.acquire(LEASE, within_s=4.0)
    moment_s = random.uniform(0.0, RENEW_S)
    time.sleep(moment_s)
    proxy.stall()
    assert handle.lost.wait(TTL_S), f"not told; stalled {moment_s:.2f} s after the term began"
    told_at, valid_until = candidate.runtime.now(), handle.view().valid_until
    assert valid_until is not None and valid_until <= told_at <= valid_until + LATE_S, f"stalled after {moment_s:.2f} s"
    assert handle.view().reason == "deadline"
    assert time.clock_gettime(time.CLOCK_BOOTTIME) - candidate.timer.beat_at < LATE_S + 1.0, "the timer thread is stuck"


def test_a_lease_that_was_lost_in_silence_can_be_had_again_soon_after_it(elections: Elections, proxy: Proxy) -> None:
    """What lay unread in the sockets, renewals and releases, is executed in full when the nodes answer again
    (cassandra-facts.md I.0.1): a late renewal of the ended term keeps nobody waiting for a TTL."""
    candidate = elections.candidate("node-a", proxy.hosts)
    handle = candidate.acquire(LEASE, within_s=4.0)
    proxy.stall()
    assert handle.lost.wait(TTL_S)
    candidate.release(handle)
    assert handle.view().reason == "release_unknown", "a release that nobody answered counts as settled"
    proxy.heal()
    healed_at = candidate.runtime.now()
    again = candidate.acquire(LEASE, within_s=AGAIN_S)
    assert again.view().holder != handle.view().holder
    assert (again.view().token or 0) > (handle.view().token or 0)
    assert candidate.runtime.now() - healed_at < AGAIN_S


def _rounds(fleet: Fleet, proxy: Proxy, break_it: Callable[[], None], rounds: int) -> None:
    for name in ("node-a", "node-b"):
        fleet.start(name, proxy.hosts)
    fleet.wait_leader(10.0)
    for turn in range(rounds):
        break_it()
        time.sleep(CUT_S)
        assert not any(node.held() for node in fleet.nodes.values()), "leads beyond its deadline"
        proxy.heal()
        eventually(lambda: any(node.held() for node in fleet.nodes.values()), AGAIN_S)
        fleet.work(20, f"round-{turn}")


def test_two_daemons_lead_again_after_every_connection_was_cut_for_longer_than_a_lease(
    fleet: Fleet, proxy: Proxy
) -> None:
    """faults.md 17: the election is no one-shot. Ten times by --long."""
    _rounds(fleet, proxy, proxy.cut, 1)


@pytest.mark.long
@pytest.mark.parametrize("how", ["cut", "stall"])
def test_two_daemons_lead_again_after_each_of_ten_outages(fleet: Fleet, proxy: Proxy, how: str) -> None:
    """faults.md 17."""
    _rounds(fleet, proxy, proxy.cut if how == "cut" else proxy.stall, 10)
