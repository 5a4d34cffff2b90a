"""What a state folder must hold together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata_daemon.base.errors import PreflightError
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.stores.opening import open_embedded


def _open(state: Path) -> None:
    open_embedded("sqlite", "dir", state, "r", RealRuntime()).close()


def test_a_folder_is_made_and_opens_again(tmp_path: Path) -> None:
    _open(tmp_path / "state")
    _open(tmp_path / "state")


@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "missing"])
def test_chunks_whose_database_was_lost_are_not_taken_over(tmp_path: Path, is_empty: bool) -> None:
    _open(tmp_path)
    (tmp_path / "strata.db").unlink()
    if is_empty:
        (tmp_path / "strata.db").touch()
    with pytest.raises(PreflightError, match="holds the chunks"):
        _open(tmp_path)
    assert os.path.getsize(tmp_path / "strata.db") == 0 if is_empty else not (tmp_path / "strata.db").exists()


def test_a_look_at_nothing_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="no store"):
        open_embedded("sqlite", "dir", tmp_path / "state", "r", RealRuntime(), read_only=True)
    assert list(tmp_path.iterdir()) == []
