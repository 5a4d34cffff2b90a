"""The product and the floors as processes: started, timed, read by their log lines, ended. Knows no figure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

FLOORS = Path(__file__).parent / "floors"
PRODUCT = (sys.executable, "-m", "strata_daemon")
POLL_S = 0.001
END_S = 30.0

STANDS_BY = "daemon started"
LEADS = "leader acquired"


class Failed(Exception):
    """A process did not do what a measurement needs; the message shows what it last said."""


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without the settings of its own daemon, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    return kept | dict(settings)


def settings_for(state: Path, **settings: str) -> dict[str, str]:
    """Settings of a daemon with its state in `state`; keywords are STRATA_* names without their prefix."""
    chosen = {
        "WORKERS": "gc",
        "STATE_DIR": str(state),
        "DAEMON_LISTEN": "127.0.0.1:0",
        "LOG_FORMAT": "json",
        **settings,
    }
    return {f"STRATA_{name}": value for name, value in chosen.items()}


def floor(name: str, *arguments: object) -> list[str]:
    return [sys.executable, str(FLOORS / f"{name}.py"), *map(str, arguments)]


def timed(command: Sequence[str], settings: Mapping[str, str] | None = None, *, within_s: float = 600.0) -> float:
    """Run to the end; the wall time in seconds. Raises Failed when it does not exit 0."""
    began = time.monotonic()
    done = subprocess.run(
        command,
        env=environment(settings or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=within_s,
        check=False,
    )
    took_s = time.monotonic() - began
    if done.returncode != 0:
        shown = done.stdout[-2000:].decode(errors="replace")
        raise Failed(f"{' '.join(command)} ended with code {done.returncode}:\n{shown}")
    return took_s


class Process:
    """A process in the background, its output in a file. Killed at the end of its `with`, if it still runs."""

    def __init__(self, command: Sequence[str], settings: Mapping[str, str], output: Path) -> None:
        self._output = output
        with output.open("wb") as sink:
            self.popen = subprocess.Popen(
                command, env=environment(settings), stdout=sink, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def send(self, number: signal.Signals) -> float:
        """Send a signal; the instant just before it."""
        at = time.monotonic()
        self.popen.send_signal(number)
        return at

    def kill(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(END_S)

    def wait_end(self, within_s: float = END_S) -> int:
        try:
            return self.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"a process did not end within {within_s:g} s:\n{self._tail()}") from None

    def wait_line(self, msg: str, count: int = 1, *, within_s: float = 60.0) -> None:
        """Wait until `count` lines of the log bear this `msg`."""
        ends_at = time.monotonic() + within_s
        while sum(line.get("msg") == msg for line in self.lines()) < count:
            if self.popen.poll() is not None or time.monotonic() > ends_at:
                raise Failed(f"no {count} x {msg!r} within {within_s:g} s:\n{self._tail()}")
            time.sleep(0.02)

    def lines(self) -> Iterator[dict[str, object]]:
        for text in self._output.read_text(errors="replace").splitlines():
            try:
                yield json.loads(text)
            except ValueError:
                continue  # not a log line, or not whole yet

    def _tail(self) -> str:
        return self._output.read_text(errors="replace")[-2000:]


def seed(state: Path, count: int, *options: str, **settings: str) -> None:
    """Queue `count` chunks in `state`, with files unless the options say otherwise."""
    timed([*PRODUCT, "lab", "seed-gc", "--count", str(count), *options], settings_for(state, **settings))


def chunk_files(state: Path) -> list[Path]:
    return [path for path in state.glob("data/*/chunks/*/*") if path.is_file()]


def wait_gone(paths: Sequence[Path], *, all_of_them: bool = False, within_s: float = 60.0) -> float:
    """Wait until one of `paths`, or all of them, are gone; the instant."""
    ends_at = time.monotonic() + within_s
    while True:
        gone = [not path.exists() for path in paths]
        now = time.monotonic()
        if all(gone) if all_of_them else any(gone):
            return now
        if now > ends_at:
            raise Failed(f"no effect within {within_s:g} s: {sum(gone)} of {len(paths)} files are gone")
        time.sleep(POLL_S)
