"""Processes that outlive their starter: started, told apart for good by pid and start time, signalled, ended.

Nothing here knows what the processes are. A pid alone is never signalled: it may belong to somebody else by now.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

POLL_S = 0.01
KILL_S = 10.0  # a signal does its work in milliseconds, unless the disk of the process hangs


class Fate(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    GONE = "down"
    FOREIGN = "down (its pid belongs to another process now)"


@dataclass(frozen=True)
class Process:
    """One process for good: `born` is the boot and the tick of its start, which no later owner of the pid shares."""

    pid: int
    born: str


def start(command: Sequence[str], environment: Mapping[str, str], output: Path) -> Process:
    """Start `command` in a session of its own, its output appended to `output`.

    By posix_spawn, since a Popen warns when its owner ends before the process, which is meant here.
    """
    pid = os.posix_spawnp(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT],
    )
    born, _, _ = _look(pid)
    return Process(pid, born or "ended at once")


def fate(process: Process) -> Fate:
    born, letter, threads = _look(process.pid)
    if born is None:
        return Fate.GONE
    if born != process.born:
        return Fate.FOREIGN
    if letter == "Z":
        # Its first thread ended. The others may still do so, and hold the ports meanwhile.
        _reap(process.pid)
        return Fate.GONE if threads <= 1 else Fate.RUNNING
    return Fate.PAUSED if letter in "Tt" else Fate.RUNNING


def is_alive(process: Process) -> bool:
    return fate(process) in (Fate.RUNNING, Fate.PAUSED)


def send(process: Process, number: signal.Signals) -> bool:
    """Signal this very process; False when it is gone. The pidfd holds the pid between the look and the signal."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def kill(process: Process) -> bool:
    """SIGKILL, and wait until it is gone; False when it was gone already."""
    return send(process, signal.SIGKILL) and wait_gone([process], KILL_S)


def pause(process: Process) -> bool:
    """SIGSTOP, and wait until it stands still; False when it is gone."""
    return send(process, signal.SIGSTOP) and _wait(lambda: fate(process) is not Fate.RUNNING, KILL_S)


def resume(process: Process) -> bool:
    """SIGCONT, and wait until it runs; False when it is gone."""
    return send(process, signal.SIGCONT) and _wait(lambda: fate(process) is not Fate.PAUSED, KILL_S)


def end(processes: Iterable[Process], grace_s: float, say: Callable[[str], None]) -> None:
    """SIGTERM to all at once, SIGKILL to those still there after `grace_s`."""
    left = [process for process in processes if is_alive(process)]
    for process in left:
        send(process, signal.SIGTERM)
        send(process, signal.SIGCONT)  # a stopped process takes no SIGTERM
    if wait_gone(left, grace_s):
        return
    for process in left:
        if kill(process):
            say(f"pid {process.pid} did not end within {grace_s:g} s: killed")


def wait_gone(processes: Iterable[Process], within_s: float) -> bool:
    """Wait until none is alive; False when one still is after `within_s`."""
    awaited = list(processes)
    return _wait(lambda: not any(map(is_alive, awaited)), within_s)


def _wait(holds: Callable[[], bool], within_s: float) -> bool:
    ends_at = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > ends_at:
            return False
        time.sleep(POLL_S)
    return True


def _look(pid: int) -> tuple[str | None, str, int]:
    """The start, the state letter and the threads of whoever has `pid` now (proc(5), fields 22, 3 and 20)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None, "", 0
    # The second field is the command in brackets, which may hold blanks and brackets itself.
    after = stat[stat.rindex(")") + 2 :].split()
    return f"{boot}/{after[19]}", after[0], int(after[17])


def _reap(pid: int) -> None:
    """Take the ended child away, if it is ours and not its owner's already."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
