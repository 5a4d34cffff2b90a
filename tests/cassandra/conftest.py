"""What a test on a ring gets besides: a proxy before the nodes, candidates, whole daemons.

The rings and keyspaces are in `tests/conftest.py`, since other folders use them too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cassandra.kit.election import Elections
from tests.cassandra.kit.fleet import Fleet
from tests.cassandra.kit.keyspaces import Keyspaces
from tests.cassandra.kit.proxy import Proxy
from tests.process.kit import Daemons
from tests.rings import LiveRing


@pytest.fixture(autouse=True)
def _quiet_driver() -> Iterator[None]:
    """The driver says each second that a node is away: that buries what a failed test shows."""
    driver = logging.getLogger("cassandra")
    before = driver.level
    driver.setLevel(logging.ERROR)
    yield
    driver.setLevel(before)


@pytest.fixture
def whole_ring(ring: LiveRing) -> Iterator[LiveRing]:
    """A ring that the test may break; it is whole again afterwards."""
    assert ring.launched.exists
    yield ring
    ring.mend()


@pytest.fixture
def proxy(ring: LiveRing) -> Iterator[Proxy]:
    made = Proxy(ring.hosts, ring.port)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def elections(keyspaces: Keyspaces) -> Iterator[Elections]:
    made = Elections(keyspaces)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def fleet(keyspaces: Keyspaces) -> Iterator[Fleet]:
    """Daemons of this process under one witness, which must have seen no fault at the end."""
    made = Fleet(keyspaces)
    try:
        yield made
        made.check()
    finally:
        made.close()


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """Real processes, ended with the test."""
    started = Daemons(tmp_path)
    try:
        yield started
    finally:
        started.kill_all()
