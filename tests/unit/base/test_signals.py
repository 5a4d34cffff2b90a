"""Signals reach the main thread also when it was about to wait as they came (faults.md 50)."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from strata_daemon.base.runtime.real import RealRuntime

LATE = -7


@pytest.fixture
def runtime() -> Iterator[RealRuntime]:
    before = signal.getsignal(signal.SIGUSR1)
    made = RealRuntime()
    made.catch_signals(signal.SIGUSR1)
    yield made
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("timeout_s", [None, 30.0])
def test_a_signal_that_did_not_wake_the_wait_is_heard_soon(runtime: RealRuntime, timeout_s: float | None) -> None:
    """`interrupt_main` notes a signal as the interpreter does, and wakes nobody: as one between a look and a wait."""
    noted = threading.Timer(0.2, _thread.interrupt_main, (signal.SIGUSR1,))
    rescue = threading.Timer(5.0, runtime.put_signal, (LATE,))
    began = time.monotonic()
    noted.start()
    rescue.start()
    assert runtime.wait_signal(timeout_s) == signal.SIGUSR1
    assert time.monotonic() - began < 2.0
    rescue.cancel()
    noted.join()
    rescue.join()


def test_a_wait_with_a_limit_ends_at_it(runtime: RealRuntime) -> None:
    began = time.monotonic()
    assert runtime.wait_signal(0.7) is None
    assert 0.7 <= time.monotonic() - began < 2.0
