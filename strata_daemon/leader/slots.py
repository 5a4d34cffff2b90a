"""What a fan-out is made of: its parts, its work, and the state of each of its slots. Data only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Latch, Runtime, Stopping, Thread
from strata_daemon.leader.context import RunContext
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.membership import Membership
from strata_daemon.leader.pace import Pace
from strata_daemon.leader.session import Locker


class ShardWork(Protocol):
    """What a fan-out works on. `interval_s`: the pause between passes of a slot."""

    interval_s: float

    def look(self, slots: Sequence[int]) -> frozenset[int]:
        """Which of these held slots have work now; one cheap read for all. May raise StoreUnavailable."""
        ...

    def took(self, slot: int) -> None:
        """The slot's lease was taken: what is remembered of its work may be out of date. Never blocks."""
        ...

    def run_pass(self, ctx: RunContext, slot: int) -> None:
        """One pass over the work of a slot; returns early when `ctx` says so, at the next batch boundary."""
        ...


@dataclass(frozen=True, slots=True)
class FanoutParts:
    """What a fan-out works with. Slot i holds the lease `<worker>-leader-<i>`."""

    worker: str
    slots: int
    runtime: Runtime
    locker: Locker
    emit: Callable[[str, bool], None]
    members: Callable[[], Membership]
    stopping: Stopping
    metrics: Metrics
    log: logging.LoggerAdapter[logging.Logger]

    def lease(self, slot: int) -> str:
        return f"{self.worker}-leader-{slot}"


class Stage(Enum):
    FREE = "free"
    TRYING = "trying"
    HELD = "held"
    LEAVING = "leaving"  # the pass is told to return; released as soon as it has
    RELEASING = "releasing"


@dataclass(slots=True)
class Slot:
    """Owned by the fan-out's thread. Instants are runtime seconds."""

    index: int
    lease: str
    stop: Latch
    stage: Stage = Stage.FREE
    handle: TermHandle | None = None
    thread: Thread | None = None
    pace: Pace = field(default_factory=Pace)
    rests_until: float = 0.0
    next_pass_at: float = 0.0
    kept_until: float = 0.0
    is_surplus: bool = False
    passes: int = 0
    unanswered_since: float | None = None  # the end of the first pass whose store did not answer, of those in a row
