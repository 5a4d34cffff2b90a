"""How durations and numbers are read and written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_daemon.base.knobs import BadValue, Duration, Text, Whole, write_duration

ANY = Duration(0.001, 10**6)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1h30m", 5400), ("500ms", 0.5), ("1.5h", 5400), ("30s", 30), ("+2m", 120), ("1500µs", 0.0015), (".5s", 0.5)],
)
def test_duration_in_go_notation_is_read(written: str, seconds: float) -> None:
    assert ANY.read(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written", ["", "s", "1d", "2w", "1h-30m", "1h 30m", "1y", "..s", "5 s", "1e3s", "nan", [], {}]
)
def test_what_go_does_not_take_is_no_duration(written: Any) -> None:
    with pytest.raises(BadValue, match="as in 500ms"):
        ANY.read(written)


@pytest.mark.parametrize("written", ["30", 30, 2.5, "-7"])
def test_bare_number_is_refused_with_a_hint(written: Any) -> None:
    with pytest.raises(BadValue, match=r"with its unit, as in [\d.]+s"):
        ANY.read(written)


@pytest.mark.parametrize("written", [True, False])
def test_boolean_is_no_duration(written: bool) -> None:
    with pytest.raises(BadValue, match="not a boolean"):
        Duration(0, 10, zero=0.0).read(written)


def test_boolean_is_no_number() -> None:
    with pytest.raises(BadValue):
        Whole(0, 10).read(True)


def test_duration_too_small_to_be_told_from_zero_is_refused() -> None:
    with pytest.raises(BadValue):
        Duration(0.01, 10, zero=5.0).read("1ns")


@pytest.mark.parametrize("written", ["0", "0s", "0h0m", 0, "-0"])
def test_zero_stands_for_what_it_is_told_to(written: Any) -> None:
    assert Duration(0.01, 10, zero=5.0).read(written) == 5.0


def test_huge_duration_is_refused() -> None:
    with pytest.raises(BadValue):
        ANY.read("9" * 400 + "h")


def test_whole_seconds_are_a_whole_number() -> None:
    got = Duration(1, 60, whole_seconds=True).read("1m")
    assert got == 60
    assert isinstance(got, int)


def test_text_counts_bytes() -> None:
    assert Text(4).read("ää") == "ää"
    with pytest.raises(BadValue, match="1 to 4 bytes"):
        Text(4).read("äää")


@given(st.integers(1, 10**9))
def test_what_is_written_reads_as_the_same_milliseconds(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert Duration(0, 10**9).read(write_duration(seconds)) == pytest.approx(seconds, rel=1e-5)
