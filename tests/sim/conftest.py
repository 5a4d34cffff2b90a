"""Seeds of the simulation: fixed ones, and a fresh one a run, printed when it fails."""

from __future__ import annotations

import os
import random

import pytest

FIXED = (1, 2, 3)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        told = os.environ.get("STRATA_TEST_SEED")
        seeds = [int(told)] if told else [*FIXED, random.SystemRandom().randrange(1 << 32)]
        metafunc.parametrize("seed", seeds, ids=[f"seed={seed}" for seed in seeds])
