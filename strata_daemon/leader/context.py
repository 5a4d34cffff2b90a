"""What a runner may ask while it runs: whether it still leads, for how long, and whether to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from strata_daemon.base.errors import LeaseLost, StopRequested
from strata_daemon.base.runtime import Latch, Runtime
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.term import DEADLINE, Phase

CANNOT_COVER = "cannot_cover"  # validity right after a renewal is shorter than what an effect asks for


class RunContext(Protocol):
    """Handed to `Runner.run`. All methods are safe from any thread of the runner."""

    @property
    def token(self) -> int | None:
        """The fencing token of the term; None for a worker without a lease."""
        ...

    @property
    def once(self) -> bool:
        """Whether one pass is wanted and no more (`run --once`)."""
        ...

    def check(self, for_s: float = 0.0) -> None:
        """Guard an effect that takes at most `for_s` seconds: return only while that much validity remains.

        Waits for a renewal when less remains. Raises LeaseLost when the term has ended or can never cover `for_s`,
        StopRequested when the process stops while it waits. Reads the clock itself (design.md section 4).
        """
        ...

    def remaining_s(self) -> float:
        """Seconds of validity left, 0 when the term has ended; infinite for a worker without a lease."""
        ...

    def is_stopping(self) -> bool:
        """The process stops: finish what is in hand, then return. Effects in hand may still be guarded and done."""
        ...

    def is_lost(self) -> bool:
        """The term has ended: touch nothing more, return."""
        ...

    def wait(self, timeout_s: float | None) -> bool:
        """Wait; say whether to return from `run` (stopping or lost), at once when that is so already.

        One thread of a runner at a time.
        """
        ...

    def progress(self, count: int = 1) -> None:
        """Tell that work was done: `count` items since the last call."""
        ...


Progress = Callable[[int], None]


class UnleasedContext:
    """The context of a worker without a lease of its own."""

    def __init__(self, runtime: Runtime, stopping: Latch, *, once: bool, on_progress: Progress) -> None:
        self._stopping = stopping
        self._once = once
        self._on_progress = on_progress
        self._done = runtime.event()
        stopping.subscribe(self._done)

    token: int | None = None

    @property
    def once(self) -> bool:
        return self._once

    def check(self, for_s: float = 0.0) -> None:
        """Nothing to guard with: a runner without a lease guards its effects by leases of its own."""

    def remaining_s(self) -> float:
        return math.inf

    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def is_lost(self) -> bool:
        return False

    def wait(self, timeout_s: float | None) -> bool:
        return self._done.wait(timeout_s)

    def progress(self, count: int = 1) -> None:
        self._on_progress(count)

    def close(self) -> None:
        self._stopping.unsubscribe(self._done)


class LeasedContext:
    """The context of a runner under one term."""

    def __init__(
        self, runtime: Runtime, handle: TermHandle, stopping: Latch, *, once: bool, on_progress: Progress
    ) -> None:
        self._runtime = runtime
        self._handle = handle
        self._stopping = stopping
        self._once = once
        self._on_progress = on_progress
        self._done = runtime.event()
        stopping.subscribe(self._done)
        handle.lost.subscribe(self._done)

    @property
    def token(self) -> int | None:
        return self._handle.view().token

    @property
    def once(self) -> bool:
        return self._once

    def check(self, for_s: float = 0.0) -> None:
        renewed_at: float | None = None
        while True:
            view = self._handle.view()
            remaining_s = (view.valid_until or 0.0) - self._runtime.now()
            if view.phase is not Phase.HELD:
                raise LeaseLost(self._handle.lease, view.reason or view.phase.value)
            if remaining_s <= 0:
                raise LeaseLost(self._handle.lease, DEADLINE)
            if remaining_s >= for_s:
                return
            if for_s > view.window_s or (renewed_at is not None and view.renewed_at != renewed_at):
                raise LeaseLost(self._handle.lease, CANNOT_COVER)
            if self._stopping.is_set():
                raise StopRequested
            renewed_at = view.renewed_at
            self._handle.wait_change(view, remaining_s, self._stopping)

    def remaining_s(self) -> float:
        view = self._handle.view()
        if view.phase is not Phase.HELD or view.valid_until is None:
            return 0.0
        return max(0.0, view.valid_until - self._runtime.now())

    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def is_lost(self) -> bool:
        return self.remaining_s() <= 0

    def wait(self, timeout_s: float | None) -> bool:
        return self._done.wait(timeout_s)

    def progress(self, count: int = 1) -> None:
        self._on_progress(count)

    def close(self) -> None:
        """After the runner has returned."""
        self._stopping.unsubscribe(self._done)
        self._handle.lost.unsubscribe(self._done)
