"""The one word "stop" of a process: set once, by its main thread, heard by every thread that waits."""

from __future__ import annotations

from strata_daemon.base.runtime.latch import Latch


class Stopping(Latch):
    """Set once the process has been asked to stop."""
