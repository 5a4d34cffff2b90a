"""The baton of virtual time: who runs, when time jumps. What a simulated process may ask is in `virtual`.

Every thread here is real, but only the one that has the baton runs. Who cannot go on passes it to the next itself,
and moves the clock when nobody is ready; the thread that drives the world gets it back at the instant it asked for.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
import threading
import traceback
from collections.abc import Callable
from math import inf

GUARD_S = 10.0  # real seconds in which virtual time may stand still before that counts as a thread blocked outside


class Killed(BaseException):
    """Unwinds a thread whose simulated process is dead."""


class Process:
    """What the baton must know of a simulated process. `exit_code`: set when it left by `exit` or the last resort."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.on_crash: Callable[[str, BaseException], None] | None = None
        self.exit_code: int | None = None
        self.is_frozen = False
        self.is_dead = False
        self.resort_at: float | None = None


class VirtualEvent:
    """An event of the world; waiting on it passes the baton."""

    def __init__(self, baton: Baton) -> None:
        self.waiters: list[VirtualTask] = []
        self._baton = baton
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        if self.waiters:
            self._baton.wake(self)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._baton.wait(self, timeout_s)


class VirtualTask:
    """A thread of the simulation, and the handle that its owner joins."""

    def __init__(self, baton: Baton, process: Process, name: str, target: Callable[[], None]) -> None:
        self.process = process
        self.event: VirtualEvent | None = None
        self.ticket = 0  # of the wait it is in; 0: in none
        self.was_woken = False
        self.ended = VirtualEvent(baton)
        self.go = threading.Lock()
        self.go.acquire()
        self._baton = baton
        self._name = name
        self._target = target
        self.thread = threading.Thread(target=self._run, name=f"{process.name}:{name}", daemon=True)

    def _run(self) -> None:
        self.go.acquire()
        self._baton.local.task = self
        try:
            if not self.process.is_dead:
                self._guarded()
        except Killed:
            pass
        finally:
            self._baton.end(self)

    def _guarded(self) -> None:
        try:
            self._target()
        except Killed:
            raise
        except BaseException as exc:  # the net at the top of each thread (style.md section 4)
            if self.process.on_crash is None:
                self._baton.crashes.append(exc)
            else:
                self.process.on_crash(self._name, exc)

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


class Baton:
    """The clock and the tasks. Everything here is touched only by the thread that has the baton, so nothing is locked.

    The thread that made it is no task: it moves time (`run`) and never waits itself.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311  a simulation, no secret
        self.crashes: list[BaseException] = []
        self.tasks: list[VirtualTask] = []
        self.processes: list[Process] = []
        self.local = threading.local()
        self.at = 1000.0
        self._until = self.at
        self._resort_at = inf
        self._ready: list[VirtualTask] = []
        self._deadlines: list[tuple[float, int, VirtualTask]] = []
        self._tickets = itertools.count(1)
        self._back = threading.Lock()
        self._back.acquire()
        self._current: VirtualTask | None = None
        self._ended: list[VirtualTask] = []
        self._stuck: VirtualTask | None = None
        self._is_unwinding = False

    # -- for the thread that moves time

    def run(self, until: float) -> None:
        """Run whatever is due up to the instant `until`; at `until` everybody waits. Raises what escaped a task."""
        self._until = until
        self._last_resorts()
        task = self._next()
        if task is not None:
            self._give(task)
        if self.crashes:
            raise self.crashes[0]
        self.at = max(self.at, until)
        self._last_resorts()

    def unwind(self) -> None:
        """End every task that is left, by `Killed`, and join its thread."""
        self._is_unwinding = True
        for process in self.processes:
            process.is_dead = True
        while left := [task for task in self.tasks if task is not self._stuck]:
            self._give(left[0])

    def _give(self, task: VirtualTask) -> None:
        """Let `task` run, and whoever it passes the baton to, until it comes back."""
        self._current = task
        task.go.release()
        while True:
            at = self.at
            if self._back.acquire(timeout=GUARD_S):
                break
            if self.at == at:
                stuck = self._stuck = self._current or task
                raise AssertionError(
                    f"{stuck.thread.name} blocked outside the runtime, or time stands still:\n{stuck.stack()}"
                )
        self._current = None
        for ended in self._ended:
            ended.thread.join(GUARD_S)
        self._ended.clear()

    # -- for tasks

    def spawn(self, process: Process, name: str, target: Callable[[], None]) -> VirtualTask:
        task = VirtualTask(self, process, name, target)
        self.tasks.append(task)
        self._ready.append(task)
        task.thread.start()
        return task

    def is_task_of(self, process: Process) -> bool:
        """Whether the calling thread is one of this process."""
        task: VirtualTask | None = getattr(self.local, "task", None)
        return task is not None and task.process is process

    def wake(self, event: VirtualEvent) -> None:
        for task in event.waiters:
            task.ticket, task.was_woken = 0, True
            self._ready.append(task)
        event.waiters = []

    def wait(self, event: VirtualEvent, timeout_s: float | None) -> bool:
        task: VirtualTask | None = getattr(self.local, "task", None)
        if task is None:
            assert event.is_set() or timeout_s is not None, "the thread that moves time cannot wait"
            return event.is_set()
        if task.process.is_dead or task is self._stuck:  # a stuck one that comes back late has no baton to pass on
            raise Killed
        if event.is_set() or (timeout_s is not None and timeout_s <= 0):
            return event.is_set()
        task.event, task.ticket, task.was_woken = event, next(self._tickets), False
        event.waiters.append(task)
        if timeout_s is not None:
            heapq.heappush(self._deadlines, (self.at + timeout_s, task.ticket, task))
        if not self._pass_on(task):
            task.go.acquire()
        if task.process.is_dead:
            raise Killed
        return task.was_woken or event.is_set()

    def end(self, task: VirtualTask) -> None:
        self.tasks.remove(task)
        if task in self._ready:
            self._ready.remove(task)
        task.ended.set()
        self._ended.append(task)
        self._pass_on(task)

    # -- the next one

    def plan_resorts(self) -> None:
        """Call when a last resort moved or a process changed its state. A frozen process has none until it wakes."""
        resorts = [each.resort_at for each in self.processes if not each.is_frozen and not each.is_dead]
        self._resort_at = min((at for at in resorts if at is not None), default=inf)

    def _pass_on(self, task: VirtualTask) -> bool:
        """Pass the baton; True when it stays with `task` itself."""
        if task is self._stuck:
            return False
        chosen = self._next()
        if chosen is task:
            return True
        self._current = chosen
        (self._back if chosen is None else chosen.go).release()
        return False

    def _next(self) -> VirtualTask | None:
        """Who runs now; None: back to the thread that moves time. Moves time itself when nobody is ready."""
        while not self.crashes and not self._is_unwinding:
            runnable = [task for task in self._ready if not task.process.is_frozen and not task.process.is_dead]
            if runnable:
                task = runnable[self.rng.randrange(len(runnable))] if len(runnable) > 1 else runnable[0]
                self._ready.remove(task)
                return task
            at = min(self._next_deadline(), self._resort_at)
            if at > self._until:
                return None
            self.at = max(self.at, at)
            self._last_resorts()
            self._time_out()
        return None

    def _next_deadline(self) -> float:
        while self._deadlines:
            at, ticket, task = self._deadlines[0]
            if task.ticket == ticket and not task.process.is_dead:
                return at
            heapq.heappop(self._deadlines)
        return inf

    def _time_out(self) -> None:
        while self._next_deadline() <= self.at:
            _, _, task = heapq.heappop(self._deadlines)
            task.ticket = 0
            if task.event is not None:
                task.event.waiters.remove(task)
            self._ready.append(task)

    def _last_resorts(self) -> None:
        if self.at < self._resort_at:
            return
        for process in self.processes:
            is_due = process.resort_at is not None and self.at >= process.resort_at
            if is_due and not process.is_dead and not process.is_frozen:
                process.exit_code, process.is_dead = 1, True
        self.plan_resorts()
