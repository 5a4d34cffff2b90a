"""One look at the whole process, for health, metrics and (later) the console: asks each part, owns no state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from strata_daemon.base.runtime import Runtime, Thread
from strata_daemon.leader.cycle import FINISHED, STOPPED, CycleState
from strata_daemon.leader.handle import TermHandle, TermView
from strata_daemon.leader.term import Phase
from strata_daemon.ports.gc_queue import QueueDepth


@dataclass(frozen=True, slots=True)
class TermState:
    """A term as one look saw it."""

    worker: str
    lease: str
    view: TermView


@dataclass(frozen=True, slots=True)
class Beat:
    """When a thread turned last (a runtime instant), and how old that may grow before the process is unhealthy."""

    thread: str
    at: float
    limit_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`at` is the runtime instant of the look. `dead` names threads that should run and do not; the thread of a worker
    that has finished or stopped should not. `depth` None: not looked at yet, or no store answered; `depth_at` is when
    it was read. `beats` are those of other threads than the lease timer."""

    at: float
    node_id: str
    workers: Mapping[str, CycleState]
    terms: Sequence[TermState]
    dead: Sequence[str]
    timer_beat_at: float
    depth: QueueDepth | None
    depth_at: float | None
    beats: Sequence[Beat] = ()

    def held(self) -> list[TermState]:
        return [term for term in self.terms if term.view.phase is Phase.HELD]

    def problems(self, beat_limit_s: float) -> list[str]:
        """What makes the process unhealthy, a sentence each: red when a term is past its deadline with its runner
        still inside, when a supervised thread is dead, or the lease timer's beat is older than `beat_limit_s`."""
        found = [f"Thread {name} is dead." for name in self.dead]
        age_s = self.at - self.timer_beat_at
        if age_s > beat_limit_s:
            found.append(f"The lease timer has not turned for {age_s:.1f} s.")
        for beat in self.beats:
            if self.at - beat.at > beat.limit_s:
                found.append(f"Thread {beat.thread} has not turned for {self.at - beat.at:.1f} s.")
        for term in self.terms:
            view = term.view
            if view.phase is Phase.LOST and view.left_at is not None:
                found.append(
                    f"Lease {term.lease} was lost {self.at - view.left_at:.1f} s ago ({view.reason})"
                    f" and the runner of {term.worker} is still inside."
                )
            elif view.phase is Phase.HELD and view.valid_until is not None and view.valid_until <= self.at:
                found.append(f"Lease {term.lease} is past its deadline.")
        return found


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """What a look asks; each answers at once and from any thread."""

    runtime: Runtime
    node_id: Callable[[], str]
    workers: Callable[[], Mapping[str, CycleState]]
    handles: Callable[[], Sequence[TermHandle]]
    threads: Callable[[], Sequence[Thread]]
    timer_beat_at: Callable[[], float]
    depth: Callable[[], tuple[QueueDepth | None, float | None]]
    beats: Callable[[], Sequence[Beat]] = field(default=tuple)

    def look(self) -> Snapshot:
        depth, depth_at = self.depth()
        # The threads first: a worker says that it is done before its thread ends.
        ended = [thread.name for thread in self.threads() if not thread.is_alive()]
        workers = self.workers()
        done = {f"worker-{name}" for name, state in workers.items() if state.phase in (FINISHED, STOPPED)}
        terms = [TermState(handle.worker, handle.lease, handle.view()) for handle in self.handles()]
        timer_beat_at, beats = self.timer_beat_at(), self.beats()
        return Snapshot(
            at=self.runtime.now(),  # last, so that no age is below zero
            node_id=self.node_id(),
            workers=workers,
            terms=terms,
            dead=[name for name in ended if name not in done],
            timer_beat_at=timer_beat_at,
            depth=depth,
            depth_at=depth_at,
            beats=beats,
        )
