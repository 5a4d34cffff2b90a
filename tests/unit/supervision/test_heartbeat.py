"""The heartbeat, turned by hand: when it writes, what it says, and two processes with one node id."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.metrics import Metrics
from strata_daemon.leader.events import LeaderEvent
from strata_daemon.ports.nodes import NodeRow
from strata_daemon.supervision.heartbeat import HeartbeatPublisher
from tests.unit.leader.by_hand import START, HandRuntime


class HandNodes:
    """A node table that fails when told to."""

    def __init__(self) -> None:
        self.rows: dict[str, NodeRow] = {}
        self.writes: list[NodeRow] = []
        self.is_down = False
        self.hides_rows = False

    def write(self, row: NodeRow, ttl_s: int) -> None:
        self._check()
        assert ttl_s == 30
        self.writes.append(row)
        self.rows[row.node_id] = replace(row, remaining_s=30.0)

    def remove(self, node_id: str, started_at: object) -> None:
        self._check()
        self.rows.pop(node_id, None)

    def read(self) -> list[NodeRow]:
        self._check()
        if self.hides_rows:
            raise StoreUnavailable("the rows cannot be read")
        return sorted(self.rows.values(), key=lambda row: row.node_id)

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable("the table is away")


def _publisher(nodes: HandNodes, runtime: HandRuntime, address: str = "127.0.0.1:1") -> HeartbeatPublisher:
    return HeartbeatPublisher(
        runtime, nodes, node_id="node-a", address=address, workers=("gc", "lifecycle"), metrics=Metrics()
    )


def test_the_first_turn_writes_the_whole_row() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    _publisher(nodes, runtime).turn()
    (row,) = nodes.writes
    assert row.node_id == "node-a" and row.address == "127.0.0.1:1"
    assert row.workers == {"gc", "lifecycle"} and row.leader_for == frozenset()
    assert row.started_at == START + timedelta(seconds=100)


def test_it_writes_each_five_seconds() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    for _ in range(11):
        publisher.turn()
        runtime.at += 1.0
    assert len(nodes.writes) == 3


def test_events_that_pile_up_become_one_write_with_the_last_state() -> None:
    """Defect d: no event is ever dropped."""
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    for _ in range(50):
        publisher.emit("gc", True)
        publisher.emit("gc", False)
    publisher.emit("lifecycle", True)
    publisher.turn()
    assert len(nodes.writes) == 2
    assert nodes.writes[-1].leader_for == {"lifecycle"}


def test_an_event_is_written_at_once() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    publisher.emit("gc", True)
    publisher.turn()
    assert nodes.writes[-1].leader_for == {"gc"}


def test_the_chip_converges_after_failed_writes() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    nodes.is_down = True
    publisher.emit("gc", True)
    publisher.turn()
    nodes.is_down = False
    runtime.at += 1.0
    publisher.turn()
    assert nodes.writes[-1].leader_for == {"gc"}


def test_the_workers_leave_the_row_before_a_stop() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    publisher.drop_workers(0.0)
    publisher.turn()
    assert nodes.writes[-1].workers == frozenset()


def test_members_are_the_rows_younger_than_fifteen_seconds() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    other = nodes.rows["node-a"]
    nodes.rows["young"] = replace(other, node_id="young", remaining_s=15.0)
    nodes.rows["old"] = replace(other, node_id="old", remaining_s=14.9)
    runtime.at += 5.0
    publisher.turn()
    assert publisher.members().running("gc") == ("node-a", "young")
    assert publisher.members().written_at["old"] == runtime.at - 15.1


def test_a_look_that_fails_keeps_the_last_members() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    nodes.rows["b"] = replace(nodes.rows["node-a"], node_id="b")
    runtime.at += 5.0
    publisher.turn()
    nodes.is_down = True
    runtime.at += 5.0
    publisher.turn()
    assert publisher.members().running("gc") == ("b", "node-a")


def test_a_row_that_vanished_is_written_again() -> None:
    """faults.md 26."""
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    nodes.rows.clear()
    runtime.at += 5.0
    publisher.turn()
    assert set(nodes.rows) == {"node-a"}


def test_a_row_that_was_gone_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """faults.md 26: made anew with the same incarnation."""
    nodes, runtime = HandNodes(), HandRuntime()
    metrics = Metrics()
    publisher = HeartbeatPublisher(
        runtime, nodes, node_id="node-a", address="127.0.0.1:1", workers=("gc",), metrics=metrics
    )
    publisher.turn()
    before = nodes.rows.pop("node-a")
    for _ in range(12):
        runtime.at += 1.0
        publisher.turn()
    assert nodes.rows["node-a"].started_at == before.started_at
    assert [record.getMessage() for record in caplog.records] == ["node row was gone"]
    assert metrics.registry.get_sample_value("strata_daemon_heartbeat_rows_gone_total") == 1.0


def test_reads_that_fail_beside_writes_that_work_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    caplog.set_level("INFO", "strata_daemon")
    nodes.hides_rows = True
    for _ in range(60):
        runtime.at += 1.0
        publisher.turn()
    nodes.hides_rows = False
    for _ in range(12):
        runtime.at += 1.0
        publisher.turn()
    assert [record.getMessage() for record in caplog.records] == ["heartbeat failed", "heartbeat works again"]


def test_a_failed_write_is_repeated_after_a_second_and_counted() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    metrics = Metrics()
    publisher = HeartbeatPublisher(runtime, nodes, node_id="n", address="a:1", workers=("gc",), metrics=metrics)
    publisher.turn()
    nodes.is_down = True
    runtime.at += 5.0
    publisher.turn()
    runtime.at += 0.9
    publisher.turn()
    assert metrics.registry.get_sample_value("strata_daemon_heartbeat_failures_total") == 2.0  # a read and a write
    nodes.is_down = False
    runtime.at += 0.1
    publisher.turn()
    assert len(nodes.writes) == 2
    wall_s = runtime.wall().timestamp()
    assert metrics.registry.get_sample_value("strata_heartbeat_last_write_timestamp") == wall_s


def test_who_waits_for_the_drop_is_told_when_it_is_written_at_last() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    nodes.is_down = True
    assert not publisher.drop_workers(0.0)
    waiting = publisher._queue.drain()
    publisher._queue.put_all(waiting)
    publisher.turn()
    written = [item.written for item in waiting if not isinstance(item, LeaderEvent)]
    assert not written[0].is_set()
    nodes.is_down = False
    runtime.at += 1.0
    publisher.turn()
    assert written[0].is_set()
    assert nodes.writes[-1].workers == frozenset()


def test_one_worker_leaves_the_row_and_the_others_stay() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    publisher.turn()
    publisher.drop_worker("gc", 0.0)
    publisher.turn()
    assert nodes.writes[-1].workers == {"lifecycle"}


def test_the_beat_moves_with_each_turn() -> None:
    nodes, runtime = HandNodes(), HandRuntime()
    publisher = _publisher(nodes, runtime)
    runtime.at += 7.0
    assert runtime.now() - publisher.beat_at == 7.0
    publisher.turn()
    assert publisher.beat_at == runtime.now()
