"""The guarded cycle of one supervised worker: acquire, build, run, release, pause, again (design.md 3.4).

Runs on the worker's own thread. What escapes a runner stops here: it is counted, logged and backed off from, and no
other worker notices. It cannot end a runner that does not return; the watchdog tells of that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from strata_daemon.base.errors import LeaseLost, StopRequested, StoreUnavailable
from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Runtime, Stopping
from strata_daemon.leader.context import LeasedContext, RunContext, UnleasedContext
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.pace import Ending, Leg, Pace
from strata_daemon.leader.session import Locker, Session

# What a runner may raise that is its own fault. SystemExit and friends too: a worker must not end the process by
# accident, nor its thread in silence (faults.md 22).
CRASHES = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)

WAITING = "waiting"
BUILDING = "building"
RUNNING = "running"
BACKING_OFF = "backing_off"
STOPPED = "stopped"
FINISHED = "finished"


class Runnable(Protocol):
    def run(self, ctx: RunContext) -> Any: ...


@dataclass(frozen=True, slots=True)
class CycleParts:
    """What a cycle works with. `lease` None: the worker takes no lease here (`skip_lease`)."""

    worker: str
    lease: str | None
    build: Callable[[], Runnable]
    runtime: Runtime
    locker: Locker
    emit: Callable[[str, bool], None]
    metrics: Metrics
    log: logging.LoggerAdapter[logging.Logger]
    stopping: Stopping
    once: bool = False


@dataclass(frozen=True, slots=True)
class CycleState:
    """Where a cycle stands, for whoever looks. Instants are runtime seconds."""

    phase: str
    since: float
    step: int = 0
    resumes_at: float | None = None
    error: str = ""
    panics: int = 0
    progress: int = 0
    progressed_at: float | None = None


class Guard:
    """The net around a runner or a shard's pass: turns whatever happens into a `Leg`."""

    def __init__(
        self, runtime: Runtime, metrics: Metrics, log: logging.LoggerAdapter[logging.Logger], worker: str
    ) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self._log = log
        self._worker = worker

    def run(self, shard: str, ctx: RunContext, build: Callable[[], Runnable], on_built: Callable[[], None]) -> Leg:
        """Build and run. `strata_worker_panic_total{worker,shard}` counts what escapes either."""
        began = None
        try:
            runner = build()
            if ctx.is_lost():
                return Leg(Ending.LOST, 0.0)
            on_built()
            began = self._runtime.now()
            runner.run(ctx)
        except StopRequested:
            return Leg(Ending.STOPPED, self._ran_s(began))
        except LeaseLost:
            return Leg(Ending.LOST, self._ran_s(began))
        except CRASHES as exc:
            if isinstance(exc, StoreUnavailable) and ctx.is_stopping():
                # The work is cut short by the stop anyway: no fault of the worker's.
                fields = {"worker": self._worker, "shard": shard, "error": str(exc)}
                self._log.warning("worker stopped in mid-work", extra=fields)
                return Leg(Ending.STOPPED, self._ran_s(began))
            self._metrics.worker_panics.labels(self._worker, shard).inc()
            self._log.error("worker crashed", exc_info=True, extra={"worker": self._worker, "shard": shard})
            error = f"{type(exc).__name__}: {exc}".splitlines()[0]
            return Leg(Ending.CRASHED, self._ran_s(began), error)
        if ctx.is_lost():
            return Leg(Ending.LOST, self._ran_s(began))
        return Leg(Ending.STOPPED if ctx.is_stopping() else Ending.RETURNED, self._ran_s(began))

    def _ran_s(self, began: float | None) -> float:
        return 0.0 if began is None else self._runtime.now() - began


class GuardedCycle:
    """`run` is the body of the thread `worker-<name>`. `state` may be read from any thread."""

    def __init__(self, parts: CycleParts) -> None:
        self._parts = parts
        self._guard = Guard(parts.runtime, parts.metrics, parts.log, parts.worker)
        self._pace = Pace()
        self._lock = threading.Lock()  # guards _state
        self._state = CycleState(WAITING, parts.runtime.now())

    def state(self) -> CycleState:
        with self._lock:
            return self._state

    def run(self) -> None:
        """Go round until the stop; with `once` a single time."""
        parts = self._parts
        while not parts.stopping.is_set():
            self._enter(WAITING)
            leg = self._leg() if parts.lease is None else self._leased_leg(parts.lease)
            if leg is None or parts.once:
                break
            poll_s = parts.locker.poll_s * (0.5 + parts.runtime.random())
            self._pace, pause_s = self._pace.after(leg, parts.runtime.now(), parts.locker.timing.ttl_s, poll_s)
            if leg.ending is Ending.CRASHED:
                self._back_off(leg, pause_s)
            parts.stopping.wait(pause_s)
        self._enter(STOPPED if parts.stopping.is_set() else FINISHED)

    def _leased_leg(self, lease: str) -> Leg | None:
        """One round under the lease; None when the stop came first, or (`once`) when the lease was not to be had."""
        parts = self._parts
        session = parts.locker.session(lease, parts.worker)
        handle = session.acquire(parts.stopping, parts.locker.poll_s if parts.once else None)
        if handle is None:
            if parts.once and not parts.stopping.is_set():
                parts.log.warning("lease not obtained", extra={"worker": parts.worker, "lease": lease})
            return None
        return self._lead(session, handle)

    def _lead(self, session: Session, handle: TermHandle) -> Leg:
        """The events stand inside the lease: claims grow late and shrink early."""
        parts = self._parts
        ctx = LeasedContext(parts.runtime, handle, parts.stopping, once=parts.once, on_progress=self._progress)
        parts.emit(parts.worker, True)
        try:
            return self._leg(ctx)
        finally:
            ctx.close()
            parts.emit(parts.worker, False)
            session.release(handle)

    def _leg(self, ctx: LeasedContext | None = None) -> Leg:
        parts = self._parts
        self._enter(BUILDING)
        if ctx is not None:
            return self._guard.run("-", ctx, parts.build, lambda: self._enter(RUNNING))
        free = UnleasedContext(parts.runtime, parts.stopping, once=parts.once, on_progress=self._progress)
        try:
            return self._guard.run("-", free, parts.build, lambda: self._enter(RUNNING))
        finally:
            free.close()

    def _back_off(self, leg: Leg, pause_s: float) -> None:
        now = self._parts.runtime.now()
        with self._lock:
            self._state = replace(
                self._state,
                phase=BACKING_OFF,
                since=now,
                step=self._pace.backoff.step,
                resumes_at=now + pause_s,
                error=leg.error,
                panics=self._state.panics + 1,
            )
        self._parts.log.warning("worker backing off", extra={"worker": self._parts.worker, "pause_s": pause_s})

    def _enter(self, phase: str) -> None:
        now = self._parts.runtime.now()
        with self._lock:
            self._state = replace(self._state, phase=phase, since=now, resumes_at=None)

    def _progress(self, count: int) -> None:
        now = self._parts.runtime.now()
        with self._lock:
            self._state = replace(self._state, progress=self._state.progress + count, progressed_at=now)
