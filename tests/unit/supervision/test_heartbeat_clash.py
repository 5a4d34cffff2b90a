"""Processes that share one node id (faults.md 7): who moves, and that all stay visible."""

from __future__ import annotations

import pytest

from strata_daemon.base.log import FIELDS
from tests.unit.leader.by_hand import HandRuntime
from tests.unit.supervision.test_heartbeat import HandNodes, _publisher


def test_the_later_of_two_processes_with_one_node_id_moves_and_both_stay_visible() -> None:
    """faults.md 7."""
    nodes, runtime = HandNodes(), HandRuntime()
    first = _publisher(nodes, runtime, "127.0.0.1:1")
    first.turn()
    runtime.at += 2.0
    second = _publisher(nodes, runtime, "127.0.0.1:2")
    second.turn()
    for _ in range(12):
        runtime.at += 1.0
        first.turn()
        second.turn()
    assert first.node_id() == "node-a"
    assert second.node_id() == "node-a-2"
    assert nodes.rows["node-a"].address == "127.0.0.1:1"
    assert nodes.rows["node-a-2"].address == "127.0.0.1:2"


def test_the_row_of_a_crashed_predecessor_is_taken_over() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    _publisher(nodes, runtime, "127.0.0.1:1").turn()
    runtime.at += 2.0
    restarted = _publisher(nodes, runtime, "127.0.0.1:1")
    for _ in range(12):
        restarted.turn()
        runtime.at += 1.0
    assert restarted.node_id() == "node-a"
    assert set(nodes.rows) == {"node-a"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first writes first", "second writes first"])
def test_of_two_that_started_in_one_millisecond_the_higher_address_moves(order: tuple[int, int]) -> None:
    """faults.md 7."""
    nodes, runtime = HandNodes(), HandRuntime()
    both = [_publisher(nodes, runtime, f"127.0.0.1:{port}") for port in (1, 2)]
    for _ in range(15):
        for index in order:
            both[index].turn()
        runtime.at += 1.0
    assert [each.node_id() for each in both] == ["node-a", "node-a-2"]
    assert {name: row.address for name, row in nodes.rows.items()} == {
        "node-a": "127.0.0.1:1",
        "node-a-2": "127.0.0.1:2",
    }


def test_three_processes_with_one_node_id_end_with_three_rows() -> None:
    """faults.md 7."""
    nodes, runtime = HandNodes(), HandRuntime()
    publishers = []
    for port in (1, 2, 3):
        publishers.append(_publisher(nodes, runtime, f"127.0.0.1:{port}"))
        runtime.at += 0.5
    for _ in range(40):
        for publisher in publishers:
            publisher.turn()
        runtime.at += 1.0
    assert publishers[0].node_id() == "node-a"
    assert {row.address for row in nodes.rows.values()} == {f"127.0.0.1:{port}" for port in (1, 2, 3)}
    assert len({publisher.node_id() for publisher in publishers}) == 3


def test_a_clash_is_said_loudly_with_both_addresses(caplog: pytest.LogCaptureFixture) -> None:
    """faults.md 7."""
    nodes, runtime = HandNodes(), HandRuntime()
    first = _publisher(nodes, runtime, "127.0.0.1:1")
    first.turn()
    runtime.at += 2.0
    second = _publisher(nodes, runtime, "127.0.0.1:2")
    second.turn()
    runtime.at += 3.0
    first.turn()
    (record,) = caplog.records
    fields = vars(record)[FIELDS]
    assert record.levelname == "ERROR" and record.getMessage() == "node id is used twice"
    assert (fields["address"], fields["other_address"]) == ("127.0.0.1:1", "127.0.0.1:2")
    assert nodes.rows["node-a"].address == "127.0.0.1:1"  # written again at once
