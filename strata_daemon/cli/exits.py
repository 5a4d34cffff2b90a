"""The exit codes (design.md section 6)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Set

CLEAN = 0
BUG = 1
CONFIGURATION = 2
PREFLIGHT = 3
WORKER_DID_NOT_STOP = 4
INTERRUPTED = 130


def leave(code: int, before: Set[int | None]) -> None:
    """Leave the process. The interpreter would first wait for threads that the driver left, and each of those may be
    waiting for a node that is silent; nothing of ours is under way any more. `before`: those that were there before
    the command."""
    if all(thread.daemon for thread in threading.enumerate() if thread.ident not in before):
        sys.exit(code)
    from strata_daemon.base.runtime.real import RealRuntime

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        silence_stdout()
    RealRuntime().exit(code)


def silence_stdout() -> None:
    """After the reader of stdout went away: what the interpreter flushes at its end goes nowhere, without a message."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)
