"""The message from election to the heartbeat: this process now leads a worker, or no longer does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaderEvent:
    """`acquired` follows the lease, `acquired=False` precedes its release: the chip grows late and shrinks early."""

    worker: str
    acquired: bool
