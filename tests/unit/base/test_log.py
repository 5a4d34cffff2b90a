"""One line a record, whatever it holds and whatever becomes of the descriptor."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strata_daemon.base import log


class Pipe:
    def __init__(self) -> None:
        self.out, self.into = os.pipe()

    def text(self) -> str:
        return os.read(self.out, 1 << 20).decode()

    def line(self) -> dict[str, Any]:
        text = self.text()
        assert text.endswith("\n")
        assert len(text.splitlines()) == 1, text
        parsed: dict[str, Any] = json.loads(text)
        return parsed


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    log.setup("debug", "json", made.into)
    yield made
    for fd in (made.out, made.into):
        try:
            os.close(fd)
        except OSError as exc:
            assert exc.errno == errno.EBADF


def handler() -> log.DescriptorHandler:
    (ours,) = [each for each in logging.getLogger().handlers if isinstance(each, log.DescriptorHandler)]
    return ours


def test_line_is_time_level_msg_then_the_fields(pipe: Pipe) -> None:
    log.logger("x").warning("leader lease lost", extra={"name": "gc-leader-0", "token": 7})
    line = pipe.line()
    assert list(line) == ["time", "level", "msg", "name", "token"]
    assert (line["level"], line["msg"], line["name"], line["token"]) == ("warn", "leader lease lost", "gc-leader-0", 7)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


@pytest.mark.parametrize("name", ["args", "message", "module", "exc_info", "process", "thread", "levelname", "asctime"])
def test_field_may_bear_any_name(pipe: Pipe, name: str) -> None:
    log.logger("x").info("m", extra={name: 1})
    assert pipe.line()[name] == 1


def test_field_named_like_one_of_ours_does_not_replace_it(pipe: Pipe) -> None:
    log.logger("x").info("m", extra={"time": 1, "level": 2, "msg": 3, "stack": 4})
    line = pipe.line()
    assert (line["msg"], line["msg_"], line["level"], line["time_"], line["stack_"]) == ("m", 3, "info", 1, 4)


def test_own_fields_and_the_callers_are_merged_and_the_callers_win(pipe: Pipe) -> None:
    log.logger("x", worker="gc", shard=1).info("m", extra={"shard": 2})
    line = pipe.line()
    assert (line["worker"], line["shard"]) == ("gc", 2)


def test_exception_stands_in_one_field(pipe: Pipe) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.logger("x").exception("worker panicked")
    line = pipe.line()
    assert line["level"] == "error"
    assert line["stack"].startswith("Traceback")
    assert "ValueError: two\nlines" in line["stack"]


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def loop() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Unprintable(),
        {"a", "b"},
        {(1, 2): 3},
        loop(),
        float("nan"),
        [float("inf")],
        b"\xff",
        "a\nb\r\u2028\u2029\x85\x00\x1b[31m",
        "\udcff../x",
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_value_breaks_the_line(pipe: Pipe, value: Any) -> None:
    log.logger("x").info("m", extra={"value": value, "after": 1})
    text = pipe.text()
    assert len(text.splitlines()) == 1
    line = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert line["after"] == 1
    assert "value" in line
    json.dumps(line, ensure_ascii=False).encode()  # no lone surrogate is left


def test_message_that_does_not_format_is_told_of(pipe: Pipe) -> None:
    place = ("strata_daemon.x", logging.INFO, "/some/test_log.py", 7)
    handler().handle(logging.LogRecord(*place, "%d items", ("three",), None))
    line = pipe.line()
    assert (line["level"], line["msg"], line["error"]) == ("error", "log record that does not format", "TypeError")
    assert line["place"] == "/some/test_log.py:7"


def test_other_libraries_are_heard_from_warn_up_with_their_name(pipe: Pipe) -> None:
    logging.getLogger("waitress").info("chatter")
    logging.getLogger("waitress").warning("queue depth", extra={"depth": 3})
    line = pipe.line()
    assert (line["logger"], line["msg"], line["depth"]) == ("waitress", "queue depth", 3)


def test_level_can_be_changed_at_run_time(pipe: Pipe) -> None:
    log.set_level("error")
    log.logger("x").warning("quiet")
    log.set_level("debug")
    log.logger("x").debug("loud")
    assert pipe.line()["msg"] == "loud"


def test_reader_that_went_away_stops_nobody(pipe: Pipe) -> None:
    os.close(pipe.out)
    log.logger("x").info("m")
    assert handler().dropped == 1


Write = Callable[[int, Any], int]


def test_partial_writes_are_finished(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(log.os, "write", lambda fd, rest: write(fd, rest[:7]))
    log.logger("x").info("a message of some length")
    assert pipe.line()["msg"] == "a message of some length"


def test_line_after_a_torn_one_begins_a_new_line(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    steps = iter([lambda fd, rest: write(fd, rest[:5]), None])

    def full(fd: int, rest: Any) -> int:
        step = next(steps)
        if step is None:
            raise OSError(errno.ENOSPC, "no space left")
        return step(fd, rest)

    monkeypatch.setattr(log.os, "write", full)
    log.logger("x").info("torn")
    monkeypatch.setattr(log.os, "write", write)
    log.logger("x").info("whole")
    torn, whole = pipe.text().splitlines()
    assert torn == '{"tim'
    assert json.loads(whole)["msg"] == "whole"
    assert handler().dropped == 1


def test_text_form_is_for_people(pipe: Pipe) -> None:
    log.setup("info", "text", pipe.into)
    log.logger("x").info("leader acquired", extra={"lease": "gc-leader-0", "why": "two words", "empty": "", "n": None})
    text = pipe.text()
    assert re.fullmatch(
        r'\d\d:\d\d:\d\d\.\d{3} info  leader acquired lease=gc-leader-0 why="two words" empty="" n=null\n', text
    )


def test_text_form_shows_the_stack_below_and_no_control_characters(pipe: Pipe) -> None:
    log.setup("info", "text", pipe.into)
    try:
        raise ValueError("x")
    except ValueError:
        log.logger("x").exception("bad\x1b[2J", extra={"oid": "\x1b[2J\n"})
    first, *stack = pipe.text().splitlines()
    assert "\x1b" not in first
    assert stack[0].startswith("Traceback")
    assert stack[-1] == "ValueError: x"


def test_auto_is_json_when_nobody_watches(pipe: Pipe) -> None:
    log.setup("info", "auto", pipe.into)
    log.logger("x").info("m")
    assert pipe.line()["msg"] == "m"


def test_auto_is_coloured_text_on_a_terminal() -> None:
    ours, theirs = os.openpty()
    try:
        log.setup("info", "auto", theirs)
        log.logger("x").error("m")
        assert "\033[31merror" in os.read(ours, 1000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
