"""Fair share of a fan-out's leases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strata_daemon.leader.share import quota, rank_wait_s, surplus

nodes = st.lists(st.text("abcdef-0123", min_size=1, max_size=6), min_size=1, max_size=12, unique=True).map(sorted)


@given(st.integers(1, 1024), nodes)
def test_the_quotas_of_all_nodes_add_up_to_the_slots_and_differ_by_one_at_most(slots: int, running: list[str]) -> None:
    quotas = [quota(slots, running, node) for node in running]
    assert sum(quotas) == slots
    assert max(quotas) - min(quotas) <= 1
    assert quotas == sorted(quotas, reverse=True)


def test_three_nodes_share_sixty_four_slots_as_22_21_21() -> None:
    assert [quota(64, ["a", "b", "c"], node) for node in "abc"] == [22, 21, 21]


def test_a_surplus_takes_idle_slots_first_and_then_the_highest() -> None:
    held = {slot: 0.0 for slot in range(8)}
    busy = {7: True, 6: True}
    assert surplus(8, ["a", "b"], "a", held, 100.0, busy) == [5, 4, 3, 2]


def test_what_was_taken_beyond_the_share_is_kept_for_its_time() -> None:
    held = {0: 0.0, 1: 0.0, 2: 400.0, 3: 400.0}
    assert surplus(4, ["a", "b"], "b", held, 100.0, {}) == [1, 0]
    assert surplus(4, ["a", "b"], "b", {2: 400.0, 3: 400.0, 1: 400.0}, 100.0, {}) == []
    assert surplus(4, ["a", "b"], "b", {2: 400.0, 3: 400.0, 1: 400.0}, 400.0, {}) == [3]


def test_nobody_gives_up_its_only_lease_of_a_worker() -> None:
    assert surplus(1, ["a", "b"], "b", {0: 0.0}, 100.0, {}) == []
    assert surplus(2, ["a", "b", "c"], "c", {0: 0.0, 1: 0.0}, 100.0, {}) == [1]


def test_the_rank_waits_grow_by_three_tenths_of_a_second_up_to_the_fifth() -> None:
    running = list("abcdefgh")
    assert [round(rank_wait_s(running, node), 1) for node in running] == [0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.5, 1.5]


@given(st.integers(1, 64), nodes, st.data())
def test_giving_up_the_surplus_leads_to_the_quota_and_no_further(
    slots: int, running: list[str], data: st.DataObject
) -> None:
    me = data.draw(st.sampled_from(running))
    held = {slot: 0.0 for slot in data.draw(st.sets(st.integers(0, slots - 1)))}
    left = len(held) - len(surplus(slots, running, me, held, 1.0, {}))
    assert left == min(len(held), max(1, quota(slots, running, me)))
