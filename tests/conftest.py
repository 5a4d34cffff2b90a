"""What every test gets: an environment without STRATA_* settings, and a log that is as it was before."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("STRATA_") and not name.startswith("STRATA_TEST_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _same_log_afterwards() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("strata_daemon")
    before = (root.handlers[:], root.level, ours.level)
    yield
    logging.captureWarnings(False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
