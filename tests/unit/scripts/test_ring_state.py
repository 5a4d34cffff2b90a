"""The state file is whole or not there, and a broken one is never guessed at."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from ring import Options, RingError
from ring.processes import Process
from ring.state import NAME, State, load, locked, save

STATE = State(Options(nodes=2, settings=("a=1",)), {1: Process(4711, "boot/1"), 2: Process(4712, "boot/2")})


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    save(tmp_path, STATE)
    assert load(tmp_path) == STATE


def test_no_file_is_no_ring(tmp_path: Path) -> None:
    assert load(tmp_path) is None


def test_a_save_that_breaks_off_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, STATE)

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, State(Options()))
    assert load(tmp_path) == STATE


@pytest.mark.parametrize(
    "text",
    ["", '{"options": {"nod', "[]", "{}", '{"options": {"nodes": 0, "settings": []}, "processes": {}}'],
    ids=["empty", "half", "list", "no-options", "bad-option"],
)
def test_a_file_that_is_not_ours_is_said_and_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(RingError, match=f"{NAME} does not say what runs here"):
        load(tmp_path)
    assert (tmp_path / NAME).read_text() == text


def test_an_option_that_is_unknown_is_said(tmp_path: Path) -> None:
    save(tmp_path, STATE)
    values = json.loads((tmp_path / NAME).read_text())
    values["options"]["later"] = 1
    (tmp_path / NAME).write_text(json.dumps(values))
    with pytest.raises(RingError, match="does not say what runs here"):
        load(tmp_path)


def test_the_lock_lets_one_in_and_says_that_it_waits(tmp_path: Path) -> None:
    said: list[str] = []
    inside: list[str] = []
    waits = threading.Event()

    def second() -> None:
        def say(line: str) -> None:
            said.append(line)
            waits.set()

        with locked(tmp_path / "lock", say):
            inside.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path / "lock", said.append):
        thread.start()
        assert waits.wait(5)
        inside.append("first")
    thread.join()
    assert inside == ["first", "second"]
    assert said == [f"waiting for another call that works in {tmp_path}"]
