"""One suite for every node table; in time by hand but on a real ring."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.ports.nodes import NodeRow, Nodes
from strata_daemon.stores.memory import open_memory
from strata_daemon.stores.sqlite import open_sqlite
from strata_daemon.stores.sqlite.nodes import SqliteNodes
from tests.unit.leader.by_hand import HandRuntime

if TYPE_CHECKING:
    from tests.cassandra.kit.keyspaces import Keyspaces

NOW = datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)


@pytest.fixture
def runtime() -> HandRuntime:
    return HandRuntime()


@dataclass(frozen=True)
class Times:
    """How the time of a node table goes by, and how exactly it tells what remains of a row."""

    advance: Callable[[float], None]
    ttl_s: int = 30
    grain_s: float = 1e-6


@pytest.fixture(params=["memory", "sqlite", pytest.param("cassandra", marks=pytest.mark.ring)])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def times(backend: str, runtime: HandRuntime) -> Times:
    # A TTL ends on a whole second of the coordinator; the rest is for a busy machine.
    return (
        Times(time.sleep, 4, 1.5) if backend == "cassandra" else Times(lambda s: setattr(runtime, "at", runtime.at + s))
    )


@pytest.fixture
def nodes(request: pytest.FixtureRequest, backend: str, runtime: HandRuntime, tmp_path: Path) -> Iterator[Nodes]:
    if backend == "cassandra":
        yield from _on_ring(request.getfixturevalue("keyspaces"))
        return
    stores = open_memory("r", runtime) if backend == "memory" else open_sqlite(tmp_path, "r", runtime)
    yield stores.meta.nodes
    stores.close()


def _on_ring(keyspaces: Keyspaces) -> Iterator[Nodes]:
    from strata_daemon.stores.cassandra.connect import connect
    from strata_daemon.stores.cassandra.nodes import CassandraNodes
    from strata_daemon.stores.cassandra.ring import Ring

    settings = keyspaces.settings()
    ring = Ring(*connect(settings), settings, RealRuntime())
    yield CassandraNodes(ring)
    assert ring.close(5.0)


def _row(node_id: str = "a") -> NodeRow:
    return NodeRow(
        node_id=node_id,
        address="127.0.0.1:9321",
        version="0.1.0",
        started_at=NOW,
        workers=frozenset({"gc", "lifecycle"}),
        leader_for=frozenset(),
        last_heartbeat=NOW,
    )


def test_a_row_is_read_back_with_what_is_left_of_its_life(nodes: Nodes, times: Times) -> None:
    nodes.write(_row(), times.ttl_s)
    times.advance(times.ttl_s / 4)
    (row,) = nodes.read()
    assert row.remaining_s == pytest.approx(0.75 * times.ttl_s, abs=times.grain_s)
    assert replace(row, remaining_s=None) == _row()


def test_a_row_ends_with_its_ttl(nodes: Nodes, times: Times) -> None:
    nodes.write(_row(), times.ttl_s)
    assert len(nodes.read()) == 1
    times.advance(times.ttl_s)
    assert list(nodes.read()) == []


def test_a_write_replaces_the_whole_row(nodes: Nodes) -> None:
    nodes.write(_row(), 30)
    nodes.write(replace(_row(), workers=frozenset(), leader_for=frozenset({"gc"})), 30)
    (row,) = nodes.read()
    assert (row.workers, row.leader_for) == (frozenset(), frozenset({"gc"}))


def test_rows_come_by_node_id(nodes: Nodes) -> None:
    for node_id in ("b", "c", "a"):
        nodes.write(_row(node_id), 30)
    assert [row.node_id for row in nodes.read()] == ["a", "b", "c"]


def test_a_removal_leaves_the_row_of_a_namesake(nodes: Nodes) -> None:
    nodes.write(_row(), 30)
    nodes.remove("a", NOW + timedelta(seconds=1))
    assert len(nodes.read()) == 1
    nodes.remove("a", NOW)
    assert len(nodes.read()) == 0


def test_a_row_of_another_boot_has_expired_whatever_its_clock_says(runtime: HandRuntime, tmp_path: Path) -> None:
    """CLOCK_BOOTTIME begins anew with each boot: the old row's instant would lie far ahead."""
    stores = open_sqlite(tmp_path, "r", runtime)
    runtime.at = 1_000_000.0
    SqliteNodes(stores.database, runtime, "the boot before").write(_row("old"), 30)
    runtime.at = 1.0
    assert list(stores.meta.nodes.read()) == []
    stores.meta.nodes.write(_row("new"), 30)
    assert [row.node_id for row in stores.meta.nodes.read()] == ["new"]
    stores.close()


@pytest.mark.parametrize("spoilt", ["workers = '{'", "started_at = 1e300", "last_heartbeat = 'noon'", "workers = '1'"])
def test_a_row_that_cannot_be_understood_hides_no_other(runtime: HandRuntime, tmp_path: Path, spoilt: str) -> None:
    stores = open_sqlite(tmp_path, "r", runtime)
    stores.meta.nodes.write(_row("a"), 30)
    with stores.database.write() as connection:
        connection.execute(f"UPDATE nodes SET {spoilt}")
    stores.meta.nodes.write(_row("b"), 30)
    assert [row.node_id for row in stores.meta.nodes.read()] == ["b"]
    stores.close()
