"""One suite for every register of chunk folders: a folder is made once, and one that lost its marker is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.stores.chunks.root import Markers
from strata_daemon.stores.memory import open_memory
from strata_daemon.stores.sqlite import open_sqlite


@pytest.fixture(params=["memory", "sqlite"])
def clusters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Markers]:
    runtime = RealRuntime()
    stores = open_memory("r", runtime) if request.param == "memory" else open_sqlite(tmp_path, "r", runtime)
    yield stores.clusters
    stores.close()


def test_a_cluster_that_was_never_made_has_no_marker(clusters: Markers) -> None:
    clusters.record("default", "m1")
    assert clusters.expected("other") is None


def test_the_first_marker_of_a_cluster_stays(clusters: Markers) -> None:
    clusters.record("default", "m1")
    clusters.record("default", "m2")
    assert clusters.expected("default") == "m1"


def test_a_marker_is_known_after_a_restart_and_to_other_processes(tmp_path: Path) -> None:
    first = open_sqlite(tmp_path, "r", RealRuntime())
    beside = open_sqlite(tmp_path, "r", RealRuntime())
    first.clusters.record("default", "m1")
    assert beside.clusters.expected("default") == "m1"
    beside.close()
    first.close()
    again = open_sqlite(tmp_path, "r", RealRuntime())
    assert again.clusters.expected("default") == "m1"
    again.close()
