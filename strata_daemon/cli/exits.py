"""The exit codes (design.md section 6)."""

from __future__ import annotations

import os

CLEAN = 0
BUG = 1
CONFIGURATION = 2
PREFLIGHT = 3
WORKER_DID_NOT_STOP = 4
INTERRUPTED = 130


def silence_stdout() -> None:
    """After the reader of stdout went away: what the interpreter flushes at its end goes nowhere, without a message."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)
