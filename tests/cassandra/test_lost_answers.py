"""Answers that never come, though the node did as it was asked (faults.md 27, 28).

Nothing is known then, and nothing may be concluded: the same statement is repeated on another node until it is applied
or refused, and what counts is the instant of its first send.
"""

from __future__ import annotations

import pytest

from tests.cassandra.kit.election import TTL_S, Candidate, Elections
from tests.cassandra.kit.proxy import Act, Proxy, Request
from tests.process.kit import eventually

WINDOW_S = TTL_S - 1.0 - 1.0 - 1.0  # less rounding, skew and stop budget
ON_THE_WAY_S = 1.0  # between a send and its arrival at the proxy, on a busy machine; a repeat comes later than that


@pytest.fixture
def leader(elections: Elections, proxy: Proxy) -> Candidate:
    return elections.candidate("node-a", proxy.hosts)


def _is_send_of(instant: float | None, request: Request) -> bool:
    """Whether what counts from `instant` counts from the send of this very request."""
    return instant is not None and request.at - ON_THE_WAY_S < instant <= request.at


def _holder(request: Request) -> str:
    """Of an INSERT; a renewal has it in the second place."""
    return request.text(1)


def test_an_acquisition_whose_answer_is_lost_settles_by_a_repeat_on_another_node(
    leader: Candidate, proxy: Proxy, elections: Elections
) -> None:
    """faults.md 27: the repeat is refused with our own holder in the answer, which means applied."""
    lost = proxy.fault(Act.DROP_REPLY, "acquire", count=1)
    handle = leader.acquire("gc-leader-0", within_s=4.0)
    first, second = proxy.seen("acquire")
    assert lost.hit == [first]
    assert first.number != second.number, "the repeat went to the node that had not answered"
    assert _holder(first) == _holder(second) == handle.view().holder == elections.keyspaces.holder("gc-leader-0")
    confirming = proxy.seen("renew")[0]
    assert _is_send_of((handle.view().valid_until or 0.0) - WINDOW_S, confirming)
    assert leader.unknown("insert") == 1.0


def test_a_renewal_whose_answer_is_lost_ends_no_term_and_counts_from_its_first_send(
    leader: Candidate, proxy: Proxy
) -> None:
    """faults.md 27: a window that counted from the repeat would outlive the row that the first send wrote."""
    handle = leader.acquire("gc-leader-0", within_s=4.0)
    lost = proxy.fault(Act.DROP_REPLY, "renew", count=1)
    eventually(lambda: lost.hit, 4.0)
    since = lost.hit[0].at
    renewed_at = leader.wait_renewed(handle, since - 1.0, within_s=4.0)
    first, second = proxy.seen("renew", since=since)[:2]
    assert first.number != second.number
    assert second.at - first.at > ON_THE_WAY_S, "repeated before the try counts as unknown"
    assert _is_send_of(renewed_at, first)
    assert _is_send_of((handle.view().valid_until or 0.0) - WINDOW_S, first)
    assert not handle.lost.is_set() and leader.is_held(handle)


def test_a_release_whose_answer_is_lost_settles_by_a_repeat(
    leader: Candidate, proxy: Proxy, elections: Elections
) -> None:
    """faults.md 27: the repeat finds no row of ours, and that is as good as done; the next one need not wait."""
    handle = leader.acquire("gc-leader-0", within_s=4.0)
    lost = proxy.fault(Act.DROP_REPLY, "release", count=1)
    assert leader.release(handle)
    first, second = proxy.seen("release")
    assert lost.hit == [first] and first.number != second.number
    assert elections.keyspaces.holder("gc-leader-0") is None
    elections.candidate("node-b").acquire("gc-leader-0", within_s=2.0)


def test_a_renewal_that_no_node_answers_is_tried_on_each_before_one_is_asked_again(
    leader: Candidate, proxy: Proxy
) -> None:
    """cassandra-facts.md I.0.2: the driver alone would ask the same node each time."""
    handle = leader.acquire("gc-leader-0", within_s=4.0)
    lost = proxy.fault(Act.DROP_REPLY, "renew", count=2)
    eventually(lambda: len(lost.hit) == 2, 6.0)
    since = lost.hit[0].at
    leader.wait_renewed(handle, since - 1.0, within_s=4.0)
    assert {request.number for request in proxy.seen("renew", since=since)[:3]} == {1, 2, 3}
    assert leader.is_held(handle)


@pytest.mark.parametrize("kind", ["acquire", "renew", "release"])
def test_a_connection_that_is_reset_after_the_node_did_its_part_is_no_answer_either(
    leader: Candidate, proxy: Proxy, elections: Elections, kind: str
) -> None:
    """faults.md 28: the driver repeats nothing by itself; the one repeat is ours, after a pause, on another node."""
    if kind == "acquire":
        reset = proxy.fault(Act.RESET, kind, count=1)
        handle = leader.acquire("gc-leader-0", within_s=4.0)
    else:
        handle = leader.acquire("gc-leader-0", within_s=4.0)
        reset = proxy.fault(Act.RESET, kind, count=1)
    if kind == "release":
        assert leader.release(handle)
        assert elections.keyspaces.holder("gc-leader-0") is None
    else:
        eventually(lambda: reset.hit, 4.0)
        leader.wait_renewed(handle, reset.hit[0].at - 1.0, within_s=4.0)
        assert not handle.lost.is_set()
    first, second = proxy.seen(kind, since=reset.hit[0].at)[:2]
    assert first.number != second.number
    assert second.at - first.at >= 0.25, "repeated behind our back"
