"""The installed command as a subprocess: bad settings end it at once, with their exit code and in clear words."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


def command(*arguments: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "strata_daemon", *arguments],
        env={**os.environ, **environ},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_unknown_worker_is_exit_2_at_once_and_names_it_and_the_known_ones() -> None:
    times = []
    for _ in range(3):
        began = time.monotonic()
        done = command("run", STRATA_WORKERS="gc,nope")
        times.append(time.monotonic() - began)
        assert (done.returncode, done.stdout) == (2, "")
        assert "'nope'" in done.stderr
        assert "known workers are: gc" in done.stderr
    assert min(times) < 0.7, times


def test_no_worker_is_exit_2_with_the_list() -> None:
    done = command("run")
    assert done.returncode == 2
    assert "one or more of: gc" in done.stderr


def test_all_problems_are_shown_one_a_line() -> None:
    done = command(
        "run",
        "--log-level",
        "loud",
        STRATA_WORKERS="nope",
        STRATA_GC_SHARDS="0",
        STRATA_GC_INTERVAL="-5s",
        STRATA_LEASE_TTL="1s",
    )
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("strata-daemon: ") and line.endswith(".") for line in lines)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("STRATA_LEASE_TTL", "1s", "raise the TTL to 21s"),
        ("STRATA_LEASE_RENEW", "31s", "before its first renewal"),
        ("STRATA_LEASE_TTL", "30", "with its unit, as in 30s"),
        ("STRATA_GC_BATCH_SIZE", "-1", "from 1 to 10000"),
        ("STRATA_CONFIG_FILE", "/does/not/exist.toml", "No such file"),
        ("STRATA_DAEMON_LISTEN", "localhost:http", "port from 0 to 65535"),
    ],
)
def test_wrong_setting_is_exit_2_in_its_words(name: str, value: str, words: str) -> None:
    done = command("run", STRATA_WORKERS="gc", **{name: value})
    assert done.returncode == 2, done.stderr
    assert name in done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("nope",), ("run", "--nope"), ("completion", "tcsh")])
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert "Usage" in done.stderr


def test_help_and_version_are_exit_0() -> None:
    assert "workers" in command("--help").stdout
    assert command("run", "--help").returncode == 0
    assert command("--version").stdout.startswith("strata-daemon, version ")


def test_workers_are_listed() -> None:
    assert command("workers").stdout.startswith("gc  ")


def test_settings_file_that_is_printed_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(command("settings").stdout)
    done = command("run", "--config", str(file), "--workers", "nope")
    assert done.stderr.count("strata-daemon:") == 1
    assert "'nope'" in done.stderr


def test_completion_completes() -> None:
    done = command(_STRATA_DAEMON_COMPLETE="bash_complete", COMP_WORDS="strata-daemon wor", COMP_CWORD="1")
    assert done.stdout.strip() == "plain,workers"


@pytest.mark.parametrize(("level", "shows"), [("info", False), ("debug", True)])
def test_bug_is_exit_1_with_one_sentence_and_a_traceback_only_for_debug(level: str, shows: bool) -> None:
    program = (
        "from strata_daemon.cli import main; main.COMMANDS['workers'] = ('no_such_module:x', '');main.main(['workers'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "STRATA_LOG_LEVEL": level},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr.splitlines()[0]
    assert ("Traceback" in done.stderr) is shows
