"""One thread a worker, each in its guarded cycle: a crash, hang or build error of one never touches another.

Cannot end a thread: one that does not return is told of by `join`, and the process leaves without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strata_daemon.base.runtime import Runtime, Thread
from strata_daemon.leader.cycle import CycleParts, CycleState, GuardedCycle
from strata_daemon.workers.contract import Dependencies, Worker


@dataclass(frozen=True, slots=True)
class Stuck:
    """A thread that did not return in time, and where it hangs."""

    thread: str
    stack: str


class Supervisor:
    """Started and joined by the composition root. `deps(worker)` gives what a worker is built with."""

    def __init__(
        self,
        runtime: Runtime,
        workers: Sequence[Worker],
        deps: Callable[[Worker], Dependencies],
        *,
        once: bool = False,
    ) -> None:
        self._runtime = runtime
        self._once = once
        self._cycles = {worker.name: self._cycle(worker, deps(worker)) for worker in workers}
        self._threads: list[Thread] = []

    def _cycle(self, worker: Worker, deps: Dependencies) -> GuardedCycle:
        return GuardedCycle(
            CycleParts(
                worker=worker.name,
                lease=None if worker.skip_lease else f"{worker.name}-leader",
                build=lambda: worker.build(deps),
                runtime=deps.runtime,
                locker=deps.locker,
                emit=deps.emit_leader,
                metrics=deps.metrics,
                log=deps.logger,
                stopping=deps.stopping,
                once=self._once,
            )
        )

    def start(self) -> None:
        self._threads = [self._runtime.spawn(f"worker-{name}", cycle.run) for name, cycle in self._cycles.items()]

    @property
    def threads(self) -> Sequence[Thread]:
        return tuple(self._threads)

    def states(self) -> dict[str, CycleState]:
        """Where each worker stands, by name."""
        return {name: cycle.state() for name, cycle in self._cycles.items()}

    def join(self, timeout_s: float) -> list[Stuck]:
        """Wait for all threads, at most `timeout_s` seconds together; those that are still inside."""
        deadline = self._runtime.now() + timeout_s
        stuck = []
        for thread in self._threads:
            if not thread.join(max(0.0, deadline - self._runtime.now())):
                stuck.append(Stuck(thread.name, thread.stack()))
        return stuck

    def is_done(self) -> bool:
        """Whether every thread has ended (`run --once`)."""
        return not any(thread.is_alive() for thread in self._threads)
