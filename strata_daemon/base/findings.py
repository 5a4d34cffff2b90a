"""What a look at the world found: a grade, what was looked at, and a sentence that an operator can act on. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    OK = "ok"
    WARN = "warn"  # works, but somebody should know
    FAIL = "FAIL"  # a start would be refused, or would do no work


@dataclass(frozen=True, slots=True)
class Finding:
    """`about` is a short noun phrase; `is_setting`: the settings are wrong, not the world."""

    grade: Grade
    about: str
    says: str
    is_setting: bool = False


def ok(about: str, says: str) -> Finding:
    return Finding(Grade.OK, about, says)


def warn(about: str, says: str) -> Finding:
    return Finding(Grade.WARN, about, says)


def fail(about: str, says: str) -> Finding:
    return Finding(Grade.FAIL, about, says)


def failures(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.grade is Grade.FAIL]
