"""Ports, folders and databases that are not fit: a clear sentence, exit code 3, and nothing changed on disk."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.process.kit import Daemons, at_once, command, execute, seed


def check_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One sentence that names what is wrong, on stderr alone."""
    assert done.returncode == 3, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("strata-daemon: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as a daemon leaves it, to be copied."""
    state = tmp_path_factory.mktemp("whole") / "state"
    seed(state, 500, files=False)
    assert command(state, "run", "--once").returncode == 0
    return state


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_port_in_use_is_said_before_any_lease_is_taken(state: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = command(state, "run", DAEMON_LISTEN=address)
    check_refused(done, address, "STRATA_DAEMON_LISTEN")


def test_port_of_another_daemon_leaves_that_one_alone(daemons: Daemons, state: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    first = daemons.leading(state, DAEMON_LISTEN=address)
    check_refused(command(state, "run", DAEMON_LISTEN=address, NODE_ID="two"), address)
    first.stop()
    assert not first.said("leader lease lost")


def test_state_folder_that_is_a_file_is_refused(state: Path) -> None:
    state.write_text("mine")
    for done in at_once(lambda: command(state, "run"), lambda: command(state / "below", "run")):
        check_refused(done, str(state), "STRATA_STATE_DIR")
    assert state.read_text() == "mine"


def test_state_folder_without_the_right_to_write_is_refused(state: Path) -> None:
    state.mkdir(mode=0o555)
    for done in at_once(
        lambda: command(state, "run", prefix=unprivileged()),
        lambda: command(state / "below", "run", prefix=unprivileged()),
    ):
        check_refused(done, str(state), "Permission denied", "STRATA_STATE_DIR")
    assert list(state.iterdir()) == []


def unprivileged() -> list[str]:
    """What takes root's capabilities from a command: it has the rights of the files' owner then, and no more."""
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"] if os.geteuid() == 0 else []


def test_store_that_was_made_read_only_can_still_be_looked_at(whole: Path, state: Path) -> None:
    shutil.copytree(whole, state)
    before = content(state)
    state.chmod(0o555)
    try:
        for arguments, code in ((("status", "--json"), 0), (("run",), 3)):
            assert command(state, *arguments, prefix=unprivileged()).returncode == code, arguments
    finally:
        state.chmod(0o755)
    assert content(state) == before


@pytest.mark.parametrize("kind", ["text", "another program's", "newer", "cut short", "of one page"])
def test_database_that_is_not_fit_is_refused_and_left_as_it_is(kind: str, whole: Path, fast_folder: Path) -> None:
    def check(name: str) -> None:
        state = fast_folder / name
        shutil.copytree(whole, state)
        words = spoil(state / name, kind)
        before = content(state)
        check_refused(command(state, "run"), str(state / name), words)
        if kind == "cut short":
            check_refused(command(state, "status"), str(state / name))
        assert content(state) == before

    at_once(partial(check, "strata.db"), partial(check, "leases.db"))


def spoil(file: Path, kind: str) -> str:
    """Make the file unfit in one way; a word of the sentence about it."""
    match kind:
        case "text":
            file.write_text("not a database, but the only copy of something else")
            return "no SQLite database"
        case "another program's":
            file.unlink()
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("CREATE TABLE theirs (a)")
            return "another program"
        case "newer":
            execute(file, "PRAGMA user_version = 99")
            return "newer"
        case "cut short":
            os.truncate(file, file.stat().st_size // 2)
        case "of one page":
            os.truncate(file, 1000)
    return "damaged"
