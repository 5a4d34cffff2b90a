"""How long to pause after a worker or a shard ended: pure arithmetic (design.md section 3.4, defects a and h)."""

from __future__ import annotations

from dataclasses import dataclass

STEPS_S = (1.0, 5.0, 30.0, 120.0)
HEALTHY_S = 300.0


@dataclass(frozen=True, slots=True)
class BackOff:
    """The step that the next pause takes: 0 is the first. `pause_s` is in seconds."""

    step: int = 0

    @property
    def pause_s(self) -> float:
        return STEPS_S[self.step]

    def after_crash(self, ran_s: float) -> tuple[BackOff, float]:
        """The state after a crash of a runner that ran `ran_s` seconds, and the pause to take now.

        `ran_s` is the time inside `run` alone: waiting for a lease is no healthy run (defect a).
        """
        current = BackOff() if ran_s >= HEALTHY_S else self
        return BackOff(min(current.step + 1, len(STEPS_S) - 1)), current.pause_s

    def after_return(self) -> tuple[BackOff, float]:
        """After a clean return with the lease still held: round again after the first step."""
        return BackOff(), STEPS_S[0]
