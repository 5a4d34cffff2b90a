"""Virtual time: real threads pass one baton, so exactly one runs at a time, and time jumps when all of them wait.

A seed chooses who goes next. `VirtualWorld` is moved by the test's own thread; each simulated process has a
`VirtualRuntime` of its own that shares the clock, and may be frozen (SIGSTOP), thawed or killed. A thread that blocks
outside its runtime fails the test. Not for production.
"""

from __future__ import annotations

import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from strata_daemon.base.runtime.contract import Event, Pool, Thread
from strata_daemon.base.runtime.queue import WakingQueue

T = TypeVar("T")
R = TypeVar("R")

START = datetime(2026, 1, 1, tzinfo=UTC)
GUARD_S = 10.0  # real seconds that a task may run before it counts as blocked outside the runtime


class Killed(BaseException):
    """Unwinds a thread whose simulated process is dead."""


class VirtualEvent:
    """An event of the world; waiting on it parks the task."""

    def __init__(self, world: VirtualWorld) -> None:
        self._world = world
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._world._wake(self)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._world._wait(self, timeout_s)


class VirtualTask:
    """A thread of the simulation, and the handle that its owner joins."""

    def __init__(self, world: VirtualWorld, process: VirtualRuntime, name: str, target: Callable[[], None]) -> None:
        self.process = process
        self.deadline: float | None = None
        self.event: VirtualEvent | None = None
        self.ended = VirtualEvent(world)
        self.go = threading.Semaphore(0)
        self._world = world
        self._name = name
        self._target = target
        self.thread = threading.Thread(target=self._run, name=f"{process.name}:{name}", daemon=True)

    def _run(self) -> None:
        self.go.acquire()
        self._world._local.task = self
        try:
            if not self.process.is_dead:
                self._target()
        except Killed:
            pass
        except BaseException as exc:
            self.process._crashed(self._name, exc)
        self._world._end(self)

    @property
    def name(self) -> str:
        return self._name

    def is_alive(self) -> bool:
        return not self.ended.is_set()

    def join(self, timeout_s: float | None = None) -> bool:
        return self.ended.wait(timeout_s)

    def stack(self) -> str:
        frame = sys._current_frames().get(self.thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None and self.is_alive() else ""


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


class VirtualRuntime:
    """One simulated process. `exit_code` is set when it left by `exit` or by the last resort."""

    def __init__(self, world: VirtualWorld, name: str) -> None:
        self.name = name
        self.on_crash: Callable[[str, BaseException], None] | None = None
        self.exit_code: int | None = None
        self.is_frozen = False
        self.is_dead = False
        self.resort_at: float | None = None
        self.wall_offset_s = 0.0
        self._world = world

    @property
    def world(self) -> VirtualWorld:
        return self._world

    def now(self) -> float:
        return self._world.now()

    def wall(self) -> datetime:
        return START + timedelta(seconds=self._world.now() + self.wall_offset_s)

    def random(self) -> float:
        return self._world.rng.random()

    def event(self) -> Event:
        return VirtualEvent(self._world)

    def queue(self, wake: Event | None = None) -> WakingQueue[Any]:
        return WakingQueue(wake if wake is not None else self.event())

    def spawn(self, name: str, target: Callable[[], None]) -> Thread:
        return self._world._spawn(self, name, target)

    def pool(self, name: str, size: int) -> Pool:
        return VirtualPool(self, name, size)

    def last_resort(self, at: float | None) -> None:
        self.resort_at = at

    def exit(self, code: int) -> None:
        self.exit_code = code
        self.kill()
        raise Killed

    def freeze(self) -> None:
        """SIGSTOP: none of its threads runs until `thaw`; time goes on."""
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False

    def kill(self) -> None:
        """SIGKILL: none of its threads ever runs again."""
        self.is_dead = True

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock of this process forward (or back)."""
        self.wall_offset_s += seconds

    def threads(self) -> list[str]:
        """Names of its threads that have not ended."""
        return [task.name for task in self._world._tasks if task.process is self]

    def _crashed(self, name: str, exc: BaseException) -> None:
        if self.on_crash is not None:
            self.on_crash(name, exc)
        else:
            self._world.crashes.append(exc)


class VirtualWorld:
    """The clock and the baton. Moved by the thread that made it; that thread is no task and never waits itself."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)  # a simulation, no secret
        self.crashes: list[BaseException] = []
        self._now = 1000.0
        self._tasks: list[VirtualTask] = []
        self._ready: list[VirtualTask] = []
        self._back = threading.Semaphore(0)
        self._local = threading.local()
        self._processes: list[VirtualRuntime] = []
        self._unwinding = False

    def now(self) -> float:
        return self._now

    def process(self, name: str) -> VirtualRuntime:
        runtime = VirtualRuntime(self, name)
        self._processes.append(runtime)
        return runtime

    def advance(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass, running whatever is due on the way."""
        target = self._now + seconds
        self.settle()
        while True:
            at = self._next_at()
            if at is None or at > target:
                self._now = max(self._now, target)
                self._last_resorts()
                return
            self._now = max(self._now, at)
            self._last_resorts()
            for task in self._tasks:
                if task.deadline is not None and task.deadline <= self._now and task not in self._ready:
                    task.deadline = None
                    self._ready.append(task)
            self.settle()

    def run_until(self, claim: Callable[[], bool], within_s: float, step_s: float = 0.1) -> float:
        """Advance until `claim` holds; how long that took (seconds). AssertionError when it does not in time."""
        began = self._now
        self.settle()
        while not claim():
            assert self._now - began < within_s, f"not so within {within_s} s of virtual time"
            self.advance(step_s)
        return self._now - began

    def settle(self) -> None:
        """Run every task that is ready until all wait."""
        while True:
            runnable = [task for task in self._ready if not task.process.is_frozen and not task.process.is_dead]
            if not runnable:
                break
            self._run(runnable[self.rng.randrange(len(runnable))])
        if self.crashes:
            raise self.crashes[0]

    def close(self) -> None:
        """Unwind every thread that is left and join it."""
        self._unwinding = True
        for runtime in self._processes:
            runtime.is_dead = True
        while self._tasks:
            self._run(self._tasks[0])

    def _run(self, task: VirtualTask) -> None:
        if task in self._ready:
            self._ready.remove(task)
        task.go.release()
        if not self._back.acquire(timeout=GUARD_S):
            raise AssertionError(f"{task.thread.name} blocked outside the runtime:\n{task.stack()}")
        if not task.is_alive():
            task.thread.join(GUARD_S)

    def _next_at(self) -> float | None:
        return min(
            [task.deadline for task in self._tasks if task.deadline is not None and not task.process.is_dead],
            default=None,
        )

    def _last_resorts(self) -> None:
        for runtime in self._processes:
            if runtime.resort_at is not None and self._now >= runtime.resort_at and not runtime.is_dead:
                runtime.exit_code = 1
                runtime.kill()

    def _spawn(self, process: VirtualRuntime, name: str, target: Callable[[], None]) -> VirtualTask:
        task = VirtualTask(self, process, name, target)
        self._tasks.append(task)
        self._ready.append(task)
        task.thread.start()
        return task

    def _wake(self, event: VirtualEvent) -> None:
        for task in self._tasks:
            if task.event is event:
                task.event = None
                task.deadline = None
                self._ready.append(task)

    def _wait(self, event: VirtualEvent, timeout_s: float | None) -> bool:
        task: VirtualTask | None = getattr(self._local, "task", None)
        if task is None:
            assert event.is_set() or timeout_s is not None, "the thread that moves time cannot wait"
            return event.is_set()
        if task.process.is_dead:
            raise Killed
        if event.is_set() or (timeout_s is not None and timeout_s <= 0):
            return event.is_set()
        task.event = event
        task.deadline = None if timeout_s is None else self._now + timeout_s
        self._back.release()
        task.go.acquire()
        task.event, task.deadline = None, None
        if task.process.is_dead:
            raise Killed
        return event.is_set()

    def _end(self, task: VirtualTask) -> None:
        self._tasks.remove(task)
        if task in self._ready:
            self._ready.remove(task)
        task.ended.set()
        self._back.release()
