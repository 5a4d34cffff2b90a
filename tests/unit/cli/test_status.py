"""What `status` prints, from plain values."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from strata_daemon.app import open_stores
from strata_daemon.cli import main
from strata_daemon.cli.status import collect, show
from strata_daemon.leader.store import LeaseStatus
from strata_daemon.ports.gc_queue import QueueDepth
from strata_daemon.ports.nodes import NodeRow
from strata_daemon.settings import load

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EMPTY = QueueDepth(0, None, {})


def _node(name: str, remaining_s: float = 28.0) -> NodeRow:
    return NodeRow(
        node_id=name,
        address="127.0.0.1:9321",
        version="0.1.0",
        started_at=NOW - timedelta(hours=2),
        workers=frozenset({"gc"}),
        leader_for=frozenset({"gc"}),
        last_heartbeat=NOW,
        remaining_s=remaining_s,
    )


def _report(nodes: list[NodeRow], leases: list[LeaseStatus], depth: QueueDepth = EMPTY) -> dict[str, Any]:
    meta: Any = SimpleNamespace(
        gc_queue=SimpleNamespace(depth=lambda region: depth), nodes=SimpleNamespace(read=lambda: nodes)
    )
    reader: Any = SimpleNamespace(list_leases=lambda: leases)
    return collect(meta, reader, "strata-local", NOW)


def _text(report: dict[str, Any], *, every: bool = False) -> str:
    out = io.StringIO()
    show(report, Console(file=out, width=160), every=every)
    return out.getvalue()


def _lease(name: str, node: str = "n", remaining_s: float | None = 20.0) -> LeaseStatus:
    return LeaseStatus(name, f"{node}/1/uuid", 7, NOW - timedelta(seconds=90), remaining_s)


def test_the_json_form_holds_everything() -> None:
    report = _report([_node("n")], [_lease("gc-leader-0")], QueueDepth(5, 1_767_268_740_000, {"bad_oid": 2}))
    assert json.loads(json.dumps(report)) == report
    assert report["leases"] == [
        {
            "lease": "gc-leader-0",
            "node": "n",
            "holder": "n/1/uuid",
            "token": 7,
            "age_s": 90.0,
            "remaining_s": 20.0,
        }
    ]
    assert report["queue"] == {
        "region": "strata-local",
        "entries": 5,
        "is_at_least": False,
        "counted_age_s": None,
        "oldest_age_s": 60.0,
        "set_aside": {"bad_oid": 2},
    }
    assert report["nodes"][0]["leader_for"] == ["gc"]


def test_nothing_at_all_is_said_in_words() -> None:
    text = _text(_report([], []))
    assert "none is running" in text and "none is held" in text and "0 entries" in text


def test_the_worst_comes_first() -> None:
    nodes = [_node("fine"), _node("late", remaining_s=12.0)]
    text = _text(_report(nodes, [_lease("calm-leader"), _lease("urgent-leader", remaining_s=3.0)]))
    assert text.index("late") < text.index("fine")
    assert text.index("urgent-leader") < text.index("calm-leader")


def test_many_shard_leases_of_a_node_become_one_line() -> None:
    report = _report([], [_lease(f"gc-leader-{i}") for i in range(64)] + [_lease("gc-leader-64", "other")])
    assert "gc-leader-* (64 shards)" in _text(report)
    assert "gc-leader-64" in _text(report)
    assert "gc-leader-17" in _text(report, every=True)


def test_a_lease_that_never_ends_says_so() -> None:
    assert "never ends" in _text(_report([], [_lease("a", remaining_s=None)]))


def test_markup_in_names_is_shown_as_text() -> None:
    text = _text(_report([_node("[red]evil[/red]")], [_lease("[bold]x[/bold]")]))
    assert "[red]evil[/red]" in text and "[bold]x[/bold]" in text


def test_no_colour_where_there_is_no_terminal() -> None:
    assert "\x1b" not in _text(_report([_node("n")], [_lease("a")]))


def test_without_a_store_it_exits_3_and_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "none"
    assert main.outcome(["status", "--state-dir", str(state)]) == 3
    assert str(state) in capsys.readouterr().err
    assert not state.exists()


def test_it_reads_a_store_that_no_daemon_runs_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe each name stays in one piece."""
    node = _node("a-node-with-a-name-of-some-length.example.org")
    settings = load({"STRATA_STATE_DIR": str(tmp_path), "STRATA_WORKERS": "gc"}).settings
    with open_stores(settings) as stores:
        stores.meta.nodes.write(node, 30)
    assert main.outcome(["status", "--state-dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert node.node_id in text and node.address in text and "\x1b" not in text
    assert main.outcome(["status", "--state-dir", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"][0]["node"] == node.node_id
