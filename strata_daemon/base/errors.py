"""The errors that cross layers. Driver errors never do: `stores/` translates them where the driver is imported."""

from __future__ import annotations


class StopRequested(BaseException):
    """The process was asked to stop. A BaseException, so an item's `except Exception` cannot swallow it."""


class LeaseLost(BaseException):
    """The term under which the caller works has ended, or cannot cover what the caller asked for.

    A BaseException for the same reason as StopRequested. `reason` is the short phrase that the log carries.
    """

    def __init__(self, lease: str, reason: str) -> None:
        super().__init__(f"lease {lease} lost: {reason}")
        self.lease = lease
        self.reason = reason


class ConfigError(Exception):
    """Settings that cannot work. `problems` holds one sentence each: what, where, and what to do. Exit code 2."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class PreflightError(Exception):
    """The world is not fit to start in: rights, schema, foreign file, busy port. Exit code 3, one clear sentence."""


class StoreUnavailable(Exception):
    """A store could not be asked, or its answer is unknown. Never means "not found"."""


class ChunkRefused(Exception):
    """A chunk name that this backend will not touch, such as one that could leave the data folder."""
