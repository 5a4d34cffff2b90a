"""Virtual time: real threads pass one baton, so exactly one runs at a time, and time jumps when all of them wait.

A seed chooses who goes next. `VirtualWorld` is moved by the test's own thread; each simulated process has a
`VirtualRuntime` of its own that shares the clock, and may be frozen (SIGSTOP), thawed or killed. A thread that blocks
outside its runtime fails the test. Not for production.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from strata_daemon.base.runtime.contract import Pool, Thread
from strata_daemon.base.runtime.event import Event
from strata_daemon.base.runtime.queue import WakingQueue
from strata_daemon.base.runtime.virtual_baton import Baton, Killed, Process, VirtualEvent, VirtualTask

__all__ = ["Killed", "VirtualEvent", "VirtualPool", "VirtualRuntime", "VirtualTask", "VirtualWorld"]

T = TypeVar("T")
R = TypeVar("R")

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualPool:
    """Tasks for one `map` at a time, at most `size` of them."""

    def __init__(self, runtime: VirtualRuntime, name: str, size: int) -> None:
        self._runtime = runtime
        self._name = name
        self._size = size

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        work = list(items)
        if self._size == 1 or len(work) < 2:
            return [function(item) for item in work]
        todo = list(enumerate(work))[::-1]
        done: dict[int, tuple[R | None, BaseException | None]] = {}

        def body() -> None:
            while todo:
                index, item = todo.pop()
                try:
                    done[index] = (function(item), None)
                except Killed:
                    raise
                except BaseException as exc:  # handed to the caller of map, which raises it
                    done[index] = (None, exc)

        lanes = min(self._size, len(work))
        threads = [self._runtime.spawn(f"{self._name}-{i}", body) for i in range(lanes)]
        for thread in threads:
            thread.join()
        for index in range(len(work)):
            error = done[index][1]
            if error is not None:
                raise error
        return [done[index][0] for index in range(len(work))]  # type: ignore[misc]

    def close(self) -> None:
        """Its tasks end with each map."""


class VirtualRuntime(Process):
    """One simulated process."""

    def __init__(self, world: VirtualWorld, name: str) -> None:
        super().__init__(name)
        self.wall_offset_s = 0.0
        self.world = world

    def now(self) -> float:
        return self.world.at

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.world.at + self.wall_offset_s)

    def random(self) -> float:
        return self.world.rng.random()

    def event(self) -> Event:
        return VirtualEvent(self.world)

    def queue(self, wake: Event | None = None) -> WakingQueue[Any]:
        return WakingQueue(wake if wake is not None else self.event())

    def spawn(self, name: str, target: Callable[[], None]) -> Thread:
        return self.world.spawn(self, name, target)

    def pool(self, name: str, size: int) -> Pool:
        return VirtualPool(self, name, size)

    def last_resort(self, at: float | None) -> None:
        self.resort_at = at
        self.world.plan_resorts()

    def exit(self, code: int) -> None:
        self.exit_code = code
        self.kill()
        if self.world.is_task_of(self):
            raise Killed

    def freeze(self) -> None:
        """SIGSTOP: none of its threads runs until `thaw`; time goes on."""
        self.is_frozen = True
        self.world.plan_resorts()

    def thaw(self) -> None:
        """SIGCONT. A last resort whose instant has passed meanwhile ends it before any thread runs."""
        self.is_frozen = False
        self.world.plan_resorts()

    def kill(self) -> None:
        """SIGKILL: none of its threads ever runs again."""
        self.is_dead = True
        self.world.plan_resorts()

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock of this process forward (or back)."""
        self.wall_offset_s += seconds

    def threads(self) -> list[str]:
        """Names of its threads that have not ended."""
        return [task.name for task in self.world.tasks if task.process is self]


class VirtualWorld(Baton):
    """All processes under one clock, as a test drives them."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)

    def now(self) -> float:
        return self.at

    def process(self, name: str) -> VirtualRuntime:
        runtime = VirtualRuntime(self, name)
        self.processes.append(runtime)
        return runtime

    def advance(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass, running whatever is due on the way."""
        self.run(self.at + seconds)

    def run_until(self, claim: Callable[[], bool], within_s: float, step_s: float = 0.1) -> float:
        """Advance until `claim` holds; how long that took (seconds). AssertionError when it does not in time."""
        began = self.at
        self.settle()
        while not claim():
            assert self.at - began < within_s, f"not so within {within_s} s of virtual time"
            self.advance(step_s)
        return self.at - began

    def settle(self) -> None:
        """Run every task that is ready until all wait."""
        self.run(self.at)

    def close(self) -> None:
        """Unwind every thread that is left and join it."""
        self.unwind()
