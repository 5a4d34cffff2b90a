"""How a guarded run ended, and how long to pause before the next: pure (design.md 3.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum

from strata_daemon.base.backoff import BackOff

LOOKS_AN_INTERVAL = 16


def next_pass(now: float, interval_s: float) -> float:
    """When a slot is due again: after the interval, on a common grid, so that a thousand slots are looked at in a few
    looks rather than each in one of its own."""
    grain_s = interval_s / LOOKS_AN_INTERVAL
    return math.ceil((now + interval_s) / grain_s) * grain_s


class Ending(Enum):
    """How a run of a runner, or a pass of a shard, ended."""

    RETURNED = "returned"
    STOPPED = "stopped"
    LOST = "lost"
    CRASHED = "crashed"
    UNANSWERED = "unanswered"  # a pass whose store did not answer; the lease is kept


@dataclass(frozen=True, slots=True)
class Leg:
    """One guarded run. `ran_s` is the time inside `run` alone (defect a); `error` one line, empty unless it crashed."""

    ending: Ending
    ran_s: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """What is remembered between runs. `lost_at`: the runtime instant of the last loss."""

    backoff: BackOff = field(default_factory=BackOff)
    lost_at: float | None = None

    def after(self, leg: Leg, now: float, ttl_s: float, poll_s: float) -> tuple[Pace, float]:
        """The next state and the pause in seconds.

        A loss goes round at once, but a second one within a TTL waits one poll. `poll_s` is already jittered.
        """
        if leg.ending is Ending.CRASHED:
            backoff, pause_s = self.backoff.after_crash(leg.ran_s)
            return replace(self, backoff=backoff), pause_s
        if leg.ending is Ending.LOST:
            is_second = self.lost_at is not None and now - self.lost_at < ttl_s
            return replace(self, lost_at=now), poll_s if is_second else 0.0
        if leg.ending is Ending.RETURNED:
            backoff, pause_s = self.backoff.after_return()
            return replace(self, backoff=backoff), pause_s
        return self, 0.0
