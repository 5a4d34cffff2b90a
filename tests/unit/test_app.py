"""The main thread's last word: whatever the stop does, the process ends."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from strata_daemon import app
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.settings import load


class Left(BaseException):
    """Instead of the process's end."""


def test_a_stop_that_raises_ends_the_process_with_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait without a way out: without an answer of the stop the main thread would wait for ever."""
    left: list[int] = []

    def leave(_runtime: RealRuntime, code: int) -> None:
        left.append(code)
        raise Left

    def broken(daemon: app.Daemon) -> int:
        stop(daemon)
        raise RuntimeError("told to break")

    stop = app.Daemon.stop
    monkeypatch.setattr(app.Daemon, "stop", broken)
    monkeypatch.setattr(RealRuntime, "exit", leave)
    monkeypatch.setattr(RealRuntime, "catch_signals", lambda runtime, *signals: runtime.put_signal(signal.SIGTERM))
    environ = {"STRATA_WORKERS": "gc", "STRATA_STATE_DIR": str(tmp_path), "STRATA_DAEMON_LISTEN": "off"}
    settings = load({}, environ=environ).settings
    ended: list[BaseException] = []

    def main() -> None:
        try:
            app.run(settings)
        except Left as exc:
            ended.append(exc)

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive()
    assert left == [1] and ended
