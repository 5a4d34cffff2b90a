"""How one setting is described and read: its names, its default, its meaning, and what may be written for it.

A model's field carries a `Setting` and a kind (`Duration`, `Whole`, `Choice`, `Text`) in its annotation. Which values
win over which, and every rule between settings, is in `settings`. Pure; any thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import durationpy
from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

GO_DURATION = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Setting:
    """What people read and write: the STRATA_* name, the key in the TOML file, the default as one writes it there.

    `title` is a noun phrase for messages, `meaning` a sentence or two for the sample file. `default` None: there is
    none, or it depends on the machine, and `meaning` says so.
    """

    env: str
    key: str
    default: str | int | tuple[str, ...] | None
    title: str
    meaning: str


class BadValue(Exception):
    """A written value that a kind does not take. `allowed` completes "it must be ..."."""

    def __init__(self, allowed: str) -> None:
        super().__init__(allowed)
        self.allowed = allowed


class Kind:
    """What may be written for a setting. `read` turns what was written into the field's value or raises BadValue."""

    def read(self, written: Any) -> Any:
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def before(written: Any) -> Any:
            try:
                return self.read(written)
            except BadValue as exc:
                raise PydanticCustomError("setting", "{allowed}", {"allowed": exc.allowed}) from exc

        return core_schema.no_info_before_validator_function(before, handler(source))


@dataclass(frozen=True, slots=True)
class Duration(Kind):
    """A duration in Go's notation, read as seconds. `zero` is the number of seconds that 0 stands for (None: refused).

    A bare number has no unit and a boolean is no duration (faults.md 62); a negative one is refused (defect S12).
    """

    least_s: float
    most_s: float
    zero: float | None = None
    whole_seconds: bool = False

    @property
    def allowed(self) -> str:
        kind = "a duration in whole seconds" if self.whole_seconds else "a duration"
        zero = "" if self.zero is None or self.least_s == 0 else f" (or 0 for {write_duration(self.zero)})"
        return f"{kind} from {write_duration(self.least_s)} to {write_duration(self.most_s)}{zero}"

    def read(self, written: Any) -> float:
        if isinstance(written, bool):
            raise BadValue(f"{self.allowed}, with its unit, and not a boolean")
        text = str(written).strip()
        if re.fullmatch(r"[+-]?0+", text) and self.zero is not None:
            return self.zero
        if re.fullmatch(r"[+-]?[\d.]+", text):
            raise BadValue(f"{self.allowed}, with its unit, as in {text.lstrip('+-')}s")
        if not GO_DURATION.fullmatch(text):
            raise BadValue(f"{self.allowed}, as in 500ms, 30s or 1h30m")
        try:
            seconds = durationpy.from_str(text).total_seconds()
        except durationpy.DurationError as exc:
            raise BadValue(self.allowed) from exc
        if seconds == 0 and self.zero is not None and not re.search("[1-9]", text):
            return self.zero
        if not self.least_s <= seconds <= self.most_s or (self.whole_seconds and seconds != int(seconds)):
            raise BadValue(self.allowed)
        return int(seconds) if self.whole_seconds else seconds


@dataclass(frozen=True, slots=True)
class Whole(Kind):
    """A whole number in bounds. `zero` is what 0 stands for (None: 0 is judged like any other number)."""

    least: int
    most: int
    zero: int | None = None

    @property
    def allowed(self) -> str:
        zero = "" if self.zero is None else f" (or 0 for {self.zero})"
        return f"a whole number from {self.least} to {self.most}{zero}"

    def read(self, written: Any) -> int:
        text = str(written).strip()
        if isinstance(written, bool) or not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
            raise BadValue(self.allowed)
        number = int(text)
        if number == 0 and self.zero is not None:
            return self.zero
        if not self.least <= number <= self.most:
            raise BadValue(self.allowed)
        return number


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few words, in any case."""

    words: tuple[str, ...]

    def read(self, written: Any) -> str:
        word = str(written).strip().lower()
        if word not in self.words:
            raise BadValue(f"one of {', '.join(self.words)}")
        return word


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """A name without control characters. `without` holds further characters that it must not contain."""

    most_bytes: int
    without: str = ""

    def read(self, written: Any) -> str:
        named = {"/": "a slash"}
        refused = "".join(f" or {named.get(char, repr(char))}" for char in self.without)
        allowed = f"a text of 1 to {self.most_bytes} bytes in UTF-8 without a control character{refused}"
        if not isinstance(written, str):
            raise BadValue(allowed)
        text = written.strip()
        if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
            raise BadValue(allowed)
        size = len(text.encode())
        if not 1 <= size <= self.most_bytes or any(not c.isprintable() or c in self.without for c in text):
            raise BadValue(allowed)
        return text


@dataclass(frozen=True, slots=True)
class Read(Kind):
    """A kind of its own: whatever `function` reads or refuses by BadValue."""

    function: Callable[[Any], Any]

    def read(self, written: Any) -> Any:
        return self.function(written)


@dataclass(frozen=True, slots=True)
class Listen:
    """Where HTTP is served; `port` None: nowhere, 0: on a port that the system picks."""

    host: str
    port: int | None


def read_listen(written: Any) -> Listen:
    """`host:port`, `[::1]:port`, `:port` (every IPv4 address) or `off`."""
    allowed = "host:port, [IPv6]:port or :port with a port from 0 to 65535, or off"
    if not isinstance(written, str):
        raise BadValue(allowed)
    text = written.strip()
    if text.lower() == "off":
        return Listen("", None)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadValue(f"{allowed} (an IPv6 address stands in brackets)")
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else -1
    if not colon or not 0 <= number <= 65535 or any(not char.isprintable() or char in " /[]" for char in host):
        raise BadValue(allowed)
    return Listen(host or "0.0.0.0", number)


def read_names(written: Any) -> tuple[str, ...]:
    """A comma list, or a list in the file; each name once, in order."""
    names = written.split(",") if isinstance(written, str) else written
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise BadValue("a list of names with commas between them")
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def read_path(written: Any) -> Path:
    if not isinstance(written, str) or "\0" in written:
        raise BadValue("the path of a folder")
    try:
        return Path(written.strip()).expanduser().absolute()
    except RuntimeError as exc:
        raise BadValue("the path of a folder whose ~ names a home folder that exists") from exc


def write_duration(seconds: float) -> str:
    """`seconds` in the notation that is read, with no needless part: 5m, 1h30m, 500ms, 0s."""
    if seconds == 0:
        return "0s"
    if seconds == int(seconds):
        rest = int(seconds)
        parts = [(rest // 3600, "h"), (rest % 3600 // 60, "m"), (rest % 60, "s")]
        return "".join(f"{number}{unit}" for number, unit in parts if number)
    number, unit = (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
    return f"{number:.3f}".rstrip("0").rstrip(".") + unit


def settings_of(model: type[BaseModel]) -> dict[str, Setting]:
    """The settings of a model, by field name, in the order of the model."""
    found = {}
    for name, field in model.model_fields.items():
        for part in field.metadata:
            if isinstance(part, Setting):
                found[name] = part
    return found
