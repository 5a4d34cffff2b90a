"""What a process test gets: a state folder, and daemons that are ended with the test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.process.kit import Daemons


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be: what ends a process loses nothing that was written, synced or not, so no sync need
    be waited for."""
    if os.access("/dev/shm", os.W_OK):
        with TemporaryDirectory(dir="/dev/shm", prefix="strata-test-") as folder:
            yield Path(folder)
    else:
        yield tmp_path


@pytest.fixture
def state(fast_folder: Path) -> Path:
    """A folder that is not there yet."""
    return fast_folder / "state"


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    started = Daemons(tmp_path)
    try:
        yield started
    finally:
        started.kill_all()
