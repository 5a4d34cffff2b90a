"""The main test of the lease rules: the table of cases."""

from __future__ import annotations

import pytest

from strata_daemon.leader import term
from tests.unit.leader.term_cases import CASES, Row, play


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES.keys())
def test_the_table(rows: list[Row]) -> None:
    play(term, rows)
