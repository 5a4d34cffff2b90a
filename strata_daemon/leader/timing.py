"""The times of a lease and how they fit together: pure arithmetic (design.md section 4). All in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from strata_daemon.leader.store import Allowance

TRIES = 3
ATTEMPT_MAX_S = 3.0


@dataclass(frozen=True, slots=True)
class Timing:
    """TTL (whole seconds), renewal period, stop budget, and the store's allowance in force."""

    ttl_s: int
    renew_s: float
    stop_budget_s: float
    allowance: Allowance = Allowance(0.0, 0.0)

    @property
    def attempt_s(self) -> float:
        """How long a try may stay unanswered before it is called unknown."""
        return min(ATTEMPT_MAX_S, self.ttl_s / 7)

    @property
    def pause_s(self) -> float:
        """The pause after an answer that said "unknown", so that a broken store is not hammered."""
        return self.attempt_s / 4

    @property
    def window_s(self) -> float:
        """Validity from the first send of a renewal cycle: TTL - rounding - skew - stop budget."""
        return self.ttl_s - self.allowance.rounding_s - self.allowance.skew_s - self.stop_budget_s

    @property
    def guard_limit_s(self) -> float:
        """The longest time that a guarded effect may ask of `check`: more would never fit before a renewal."""
        return self.window_s - self.renew_s

    @property
    def needed_s(self) -> float:
        """What TTL must at least be (faults.md 62)."""
        return self.renew_s + TRIES * self.attempt_s + (self.ttl_s - self.window_s)
