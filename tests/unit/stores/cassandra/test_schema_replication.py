"""What a keyspace's replication means for leases (design.md section 4, data centres)."""

from __future__ import annotations

import pytest

from strata_daemon.base.findings import Grade
from strata_daemon.stores.cassandra.replication import Replication, default_literal, judge

NTS = "NetworkTopologyStrategy"


def grade_and_text(
    replication: Replication, *, lease_dc: str = "", data_centres: tuple[str, ...] = ("dc1",)
) -> tuple[Grade, str]:
    (finding,) = judge("strata", replication, "dc1", lease_dc, data_centres)
    return finding.grade, finding.says


@pytest.mark.parametrize(("factor", "grade"), [(1, Grade.WARN), (2, Grade.WARN), (3, Grade.OK), (5, Grade.OK)])
def test_a_factor_whose_quorum_bears_no_loss_is_warned_of(factor: int, grade: Grade) -> None:
    got, says = grade_and_text(Replication(NTS, {"dc1": factor}))
    assert got is grade
    assert f"factor {factor}" in says


def test_two_data_centres_are_refused_unless_one_is_named_for_all_candidates() -> None:
    two = Replication(NTS, {"dc1": 3, "dc2": 3})
    grade, says = grade_and_text(two, data_centres=("dc1", "dc2"))
    assert grade is Grade.FAIL
    assert "STRATA_LEASE_DC" in says and "dc1, dc2" in says
    assert grade_and_text(two, lease_dc="dc1", data_centres=("dc1", "dc2"))[0] is Grade.OK


def test_a_second_data_centre_of_the_ring_without_replicas_does_not_matter() -> None:
    assert grade_and_text(Replication(NTS, {"dc1": 3}), data_centres=("dc1", "dc2"))[0] is Grade.OK


def test_a_keyspace_without_a_replica_here_is_refused() -> None:
    grade, says = grade_and_text(Replication(NTS, {"dc2": 3}), lease_dc="dc1", data_centres=("dc1", "dc2"))
    assert grade is Grade.FAIL
    assert "no replica in the data centre dc1" in says and "dc2" in says


def test_a_strategy_without_data_centres_is_refused_on_a_ring_that_has_several() -> None:
    simple = Replication("SimpleStrategy", {}, 3)
    assert grade_and_text(simple)[0] is Grade.OK
    assert grade_and_text(Replication("SimpleStrategy", {}, 1))[0] is Grade.WARN
    for lease_dc in ("", "dc1"):
        grade, says = grade_and_text(simple, lease_dc=lease_dc, data_centres=("dc1", "dc2"))
        assert grade is Grade.FAIL
        assert "NetworkTopologyStrategy" in says


@pytest.mark.parametrize(("nodes", "factor"), [(0, 1), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_the_default_has_as_many_replicas_as_there_are_nodes_up_to_three(nodes: int, factor: int) -> None:
    assert default_literal("dc1", nodes) == f"{{'class': 'NetworkTopologyStrategy', 'dc1': '{factor}'}}"


def test_a_data_centre_with_a_quote_in_its_name_cannot_break_the_statement() -> None:
    assert "'it''s'" in default_literal("it's", 3)
