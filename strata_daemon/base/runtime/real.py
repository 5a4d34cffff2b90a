"""The runtime of a real process."""

from __future__ import annotations

import faulthandler
import os
import queue
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

from strata_daemon.base.runtime.contract import Pool, Thread
from strata_daemon.base.runtime.event import Event
from strata_daemon.base.runtime.queue import WakingQueue

T = TypeVar("T")
R = TypeVar("R")
CrashHandler = Callable[[str, BaseException], None]


# A signal that comes between the interpreter's last look and its wait is heard only when that wait ends (faults.md 50).
SIGNAL_LOOK_S = 0.5


class RealThread:
    """A started thread. Daemonic: a thread that hangs must not keep a process alive that has decided to leave."""

    def __init__(self, name: str, target: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=target, name=name, daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return self._thread.name

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float | None = None) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None and self._thread.is_alive() else ""


class RealPool:
    """Threads that live as long as the pool. Its queue holds at most the items of the one running `map`."""

    def __init__(self, runtime: RealRuntime, name: str, size: int) -> None:
        self._size = size
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [runtime.spawn(f"{name}-{i}", self._work) for i in range(size if size > 1 else 0)]

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        work = list(items)
        if not self._threads or len(work) < 2:
            return [function(item) for item in work]
        done: queue.SimpleQueue[tuple[int, R | None, BaseException | None]] = queue.SimpleQueue()

        def call(index: int, item: T) -> None:
            try:
                done.put((index, function(item), None))
            except BaseException as exc:  # handed to the caller of map, which raises it
                done.put((index, None, exc))

        for index, item in enumerate(work):
            self._tasks.put(lambda index=index, item=item: call(index, item))  # type: ignore[misc]
        answers = sorted((done.get() for _ in work), key=lambda answer: answer[0])
        for _, _, error in answers:
            if error is not None:
                raise error
        return [result for _, result, _ in answers]  # type: ignore[misc]

    def close(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()


class RealRuntime:
    """Real time, real threads. `on_crash` is told what escaped a thread; set once, before the first spawn."""

    def __init__(self) -> None:
        self.on_crash: CrashHandler = _print_crash
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def random(self) -> float:
        return random.random()  # jitter, no secret

    def event(self) -> Event:
        return threading.Event()

    def queue(self, wake: Event | None = None) -> WakingQueue[Any]:
        return WakingQueue(wake if wake is not None else self.event())

    def spawn(self, name: str, target: Callable[[], None]) -> Thread:
        def guarded() -> None:
            try:
                target()
            except BaseException as exc:  # the net at the top of each thread (style.md section 4)
                self.on_crash(name, exc)

        return RealThread(name, guarded)

    def pool(self, name: str, size: int) -> Pool:
        return RealPool(self, name, size)

    def last_resort(self, at: float | None) -> None:
        if at is None:
            faulthandler.cancel_dump_traceback_later()
        else:
            faulthandler.dump_traceback_later(max(0.1, at - self.now()), exit=True)

    def exit(self, code: int) -> None:
        os._exit(code)

    def catch_signals(self, *signals: int) -> None:
        """Queue these signals for `wait_signal`. The handler only puts (style.md section 3). Main thread only."""
        for signum in signals:
            signal.signal(signum, lambda received, _frame: self._signals.put(received))

    def wait_signal(self, timeout_s: float | None = None) -> int | None:
        """The next signal caught; None when `timeout_s` passed without one. Main thread only."""
        until = None if timeout_s is None else self.now() + timeout_s
        while True:
            left_s = SIGNAL_LOOK_S if until is None else min(SIGNAL_LOOK_S, until - self.now())
            try:
                return self._signals.get(timeout=max(0.0, left_s))
            except queue.Empty:
                if until is not None and self.now() >= until:
                    return None

    def put_signal(self, signum: int) -> None:
        """As if `signum` had arrived: how a thread that must end the process tells the main thread."""
        self._signals.put(signum)


def _print_crash(name: str, exc: BaseException) -> None:
    print(f"thread {name} died: {exc!r}", file=sys.stderr)
    traceback.print_exception(exc)
