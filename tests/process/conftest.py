"""What a process test gets: a state folder, and daemons that are ended with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.kit import Daemons


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    started = Daemons(tmp_path)
    try:
        yield started
    finally:
        started.kill_all()
