"""The log: one JSON object a line on stdout, or a readable form for people.

Each line is one write to the descriptor, so nothing waits in a buffer when the process leaves at once. Fields come from
`extra` and may bear any name, `name` too. A line that cannot be written is dropped and counted: a full disk or a reader
that went away stops no worker. What is worth a line is decided elsewhere. Any thread.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import traceback
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS, merge_record_extra
from pythonjsonlogger.json import JsonFormatter

ROOT = "strata_daemon"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
LEVEL_NAMES = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
    logging.CRITICAL: "error",
}
OWN_FIELDS = ("time", "level", "msg", "stack")
# Where a Logger keeps the fields on the record, since `extra` refuses names such as `name` and `args`.
FIELDS = "strata_fields"

# What strict readers of JSON refuse (lone surrogates) or take for the end of a line.
UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")

COLOURS = {"debug": "\033[2m", "info": "\033[32m", "warn": "\033[33m", "error": "\033[31m"}
DIM, PLAIN = "\033[2m", "\033[0m"

Logger = logging.LoggerAdapter[logging.Logger]


class FieldLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger with fields of its own; the caller's `extra` is added to them and wins. Any name may be used."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {FIELDS: {**(self.extra or {}), **(kwargs.get("extra") or {})}}
        return msg, kwargs


def logger(name: str, **fields: object) -> Logger:
    """A logger of this name under the root of the package; `fields` stand on each of its lines."""
    full = name if name == ROOT or name.startswith(f"{ROOT}.") else f"{ROOT}.{name}"
    return FieldLogger(logging.getLogger(full), fields)


def setup(level: str = "info", fmt: str = "auto", stream_fd: int = 1) -> None:
    """Send every logger's lines to `stream_fd`. `fmt`: auto (text on a terminal, else JSON), json or text."""
    is_terminal = os.isatty(stream_fd)
    is_text = fmt == "text" or (fmt == "auto" and is_terminal)
    handler = DescriptorHandler(stream_fd)
    handler.setFormatter(TextFormatter(colour=is_terminal) if is_text else JsonLineFormatter())
    logging.getLogger().handlers[:] = [handler]
    logging.captureWarnings(True)
    set_level(level)


def set_level(level: str) -> None:
    """Log `level` (debug, info, warn, error) and above. Other libraries' loggers stay at warn or above."""
    logging.getLogger().setLevel(max(LEVELS[level], logging.WARNING))
    logging.getLogger(ROOT).setLevel(LEVELS[level])


class DescriptorHandler(logging.Handler):
    """Writes each line straight to a descriptor. `dropped` counts lines that could not be written.

    The lock of logging.Handler orders the lines; what stands here is written under it alone.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd = fd
        self.dropped = 0
        self._is_torn = False  # a line was cut in its middle: the next begins on a line of its own

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception as exc:  # one bad record must neither end its thread nor vanish
            line = _broken(record, exc)
        whole = f"{line}\n".encode("utf-8", "backslashreplace")
        rest = memoryview(b"\n" + whole if self._is_torn else whole)
        size = len(rest)
        try:
            while rest:
                rest = rest[os.write(self.fd, rest) :]
            self._is_torn = False
        except OSError:  # EPIPE, ENOSPC, EAGAIN, EBADF: telling of it would come here again
            self.dropped += 1
            self._is_torn = self._is_torn if len(rest) == size else True


class JsonLineFormatter(JsonFormatter):
    """`time` (RFC 3339, UTC, ms), `level`, `msg`, then the fields, then `stack`. Never more than one line."""

    def __init__(self) -> None:
        super().__init__(
            json_default=_shown, json_serializer=partial(json.dumps, allow_nan=False), json_ensure_ascii=False
        )

    def format(self, record: logging.LogRecord) -> str:
        return self.serialize_log_record(line_of(record))

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        try:
            line = super().jsonify_log_record(log_data)
        except (
            TypeError,
            ValueError,
            RecursionError,
        ):  # keys that are no text, not a number, a value that holds itself
            line = json.dumps({str(key): _plain(value) for key, value in log_data.items()}, ensure_ascii=False)
        return UNSAFE.sub(_escaped, line)


class TextFormatter(logging.Formatter):
    """`time level msg key=value ...` for people; a stack follows on lines of its own."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        fields = line_of(record)
        time, level, msg = fields.pop("time"), fields.pop("level"), fields.pop("msg")
        stack = fields.pop("stack", "")
        if fields.get("name") == fields.get("lease"):
            fields.pop("name", None)  # there for log rules that know Strata's lines; people need it once
        pairs = "".join(f" {self._dim(f'{key}=')}{_word(value)}" for key, value in fields.items())
        clock = self._dim(time[11:23])
        tag = f"{COLOURS[level]}{level:<5}{PLAIN}" if self._colour else f"{level:<5}"
        head = f"{clock} {tag} {_printable(msg)}{pairs}"
        return f"{head}\n{stack.rstrip()}" if stack else head

    def _dim(self, text: str) -> str:
        return f"{DIM}{text}{PLAIN}" if self._colour else text


def line_of(record: logging.LogRecord) -> dict[str, Any]:
    """A record as the fields of its line, in order. A field named like one of our own gets a `_` behind its name."""
    line: dict[str, Any] = {
        "time": _rfc3339(record.created),
        "level": LEVEL_NAMES.get(record.levelno, record.levelname.lower()),
        "msg": record.getMessage(),
    }
    if not record.name.startswith(ROOT):
        line["logger"] = record.name
    fields: dict[Any, Any] = merge_record_extra(record, {}, reserved={*RESERVED_ATTRS, FIELDS, "taskName"})
    own: Mapping[Any, Any] = getattr(record, FIELDS, {})
    for key, value in {**fields, **own}.items():
        line[f"{key}_" if key in OWN_FIELDS else str(key)] = value
    stack = _stack(record)
    if stack:
        line["stack"] = stack
    return line


def _rfc3339(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _stack(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append("".join(traceback.format_exception(*record.exc_info)))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


def _shown(value: Any) -> Any:
    """What stands in JSON for a value that JSON does not know."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return str(value)
    except Exception as exc:  # foreign code in __str__
        return f"<{type(value).__name__} that cannot be shown: {type(exc).__name__}>"


def _escaped(match: re.Match[str]) -> str:
    """A JSON escape; a surrogate becomes text that looks like one, since no escape may stand for it alone."""
    code = ord(match[0])
    return f"\\\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    try:
        return repr(value)
    except Exception as exc:  # foreign code in __repr__
        return f"<{type(value).__name__} that cannot be shown: {type(exc).__name__}>"


def _word(value: Any) -> str:
    shown = value if value is None or isinstance(value, str | bool | int | float | list | dict) else _shown(value)
    try:
        text = shown if isinstance(shown, str) else json.dumps(shown, default=_shown)
    except (TypeError, ValueError, RecursionError):
        text = str(_plain(shown))
    return json.dumps(text) if not text or any(not c.isprintable() or c in ' "=' for c in text) else text


def _printable(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _broken(record: logging.LogRecord, exc: Exception) -> str:
    """The line of a record that does not format, such as one whose arguments do not fit its message."""
    return json.dumps(
        {
            "time": _rfc3339(record.created),
            "level": "error",
            "msg": "log record that does not format",
            "place": f"{record.pathname}:{record.lineno}",
            "error": type(exc).__name__,
        }
    )
