"""Two daemons with different STRATA_GC_SHARDS on one keyspace are noticed and said loudly."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from strata_daemon.base.runtime.virtual import VirtualRuntime, VirtualWorld
from strata_daemon.ports.nodes import NodeRow
from strata_daemon.ports.shared_settings import NodeSettings
from strata_daemon.supervision.agreement import WRITTEN_EACH_S, Agreement

AT = datetime(2026, 12, 1, tzinfo=UTC)
EARLIER = datetime(2026, 11, 1, tzinfo=UTC)


class Shared:
    def __init__(self) -> None:
        self.rows: dict[str, NodeSettings] = {}
        self.writes = 0

    def write(self, mine: NodeSettings, ttl_s: int) -> None:
        assert ttl_s > WRITTEN_EACH_S
        self.writes += 1
        self.rows[mine.node_id] = mine

    def read(self) -> Sequence[NodeSettings]:
        return list(self.rows.values())


class Nodes:
    def __init__(self) -> None:
        self.rows: list[NodeRow] = []

    def add(self, name: str, workers: str = "gc", started_at: datetime = AT) -> None:
        self.rows.append(NodeRow(name, "", "", started_at, frozenset({workers}), frozenset(), AT, 20.0))

    def write(self, row: NodeRow, ttl_s: int) -> None: ...

    def remove(self, node_id: str, started_at: datetime) -> None: ...

    def read(self) -> Sequence[NodeRow]:
        return self.rows


class Made:
    def __init__(self) -> None:
        self.runtime = VirtualRuntime(VirtualWorld(), "me")
        self.shared, self.nodes = Shared(), Nodes()
        self.agreement = Agreement(
            self.runtime, self.shared, self.nodes, node_id=lambda: "me", started_at=AT, gc_shards=4
        )

    def other(self, gc_shards: int, started_at: datetime = AT) -> None:
        self.shared.rows["other"] = NodeSettings("other", started_at, gc_shards)


@pytest.fixture
def made() -> Made:
    return Made()


def _said(caplog: Any) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_living_node_with_another_number_is_said_once_with_both(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    made.nodes.add("other")
    made.other(8)
    made.agreement.turn()
    made.agreement.turn()
    assert _said(caplog) == [("ERROR", "settings of the nodes disagree")]
    (problem,) = made.agreement.problems
    assert "other" in problem and "STRATA_GC_SHARDS 8" in problem and "with 4" in problem


def test_that_they_agree_again_is_said(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    made.nodes.add("other")
    made.other(8)
    made.agreement.turn()
    made.other(4)
    with caplog.at_level(logging.INFO, "strata_daemon"):
        made.agreement.turn()
    assert ("INFO", "settings of the nodes agree again") in _said(caplog)
    assert made.agreement.problems == ()


def test_a_node_that_is_gone_or_was_started_anew_or_runs_no_gc_does_not_count(made: Made) -> None:
    made.other(8)
    made.agreement.turn()
    made.nodes.add("other", workers="lifecycle")
    made.agreement.turn()
    made.nodes.rows.clear()
    made.nodes.add("other", started_at=AT)
    made.other(8, started_at=EARLIER)
    made.agreement.turn()
    assert made.agreement.problems == ()


def test_the_own_row_is_written_now_and_then_only(made: Made) -> None:
    for _ in range(5):
        made.agreement.turn()
    assert (made.shared.writes, made.shared.rows["me"].gc_shards) == (1, 4)
