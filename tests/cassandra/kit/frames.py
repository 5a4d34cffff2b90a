"""As much of the native protocol, version 4, as the proxy and the tests must read. Pure: bytes in, values out.

Each frame has a head of nine bytes: version, flags, stream, opcode, length of the body. Nothing is compressed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

HEAD_BYTES = 9
ERROR, QUERY, RESULT, PREPARE, EXECUTE, BATCH = 0x00, 0x07, 0x08, 0x09, 0x0A, 0x0D
RESPONSE_V4 = 0x84
PREPARED = 4  # the kind of a RESULT that answers a PREPARE
INVALID = 0x2200
LOCAL_QUORUM, LOCAL_SERIAL = 6, 9

# Flags of the parameters of a QUERY or EXECUTE, in the order in which what they announce follows.
VALUES, PAGE_SIZE, PAGING_STATE, SERIAL = 0x01, 0x04, 0x08, 0x10

# Prepared statements of a lease only: a start also tries its rights, by plain statements on names that are no lease's.
KINDS = {
    "acquire": re.compile(r"INSERT INTO \w+\.worker_locks \(name, holder\) VALUES \(\?, \?\)"),
    "renew": re.compile(r"UPDATE \w+\.worker_locks .*IF holder = \?"),
    "release": re.compile(r"DELETE FROM \w+\.worker_locks WHERE name = \? IF holder = \?"),
    "draw": re.compile(r"UPDATE \w+\.lease_tokens .*IF fence = \?"),
    "look": re.compile(r"SELECT .* FROM \w+\.worker_locks\b"),
}
OTHER = "other"


@dataclass(frozen=True)
class Head:
    version: int
    flags: int
    stream: int
    opcode: int
    length: int

    @classmethod
    def of(cls, raw: bytes) -> Head:
        return cls(*struct.unpack(">BBhBi", raw))


@dataclass(frozen=True)
class Asked:
    """A statement on the wire. `serial` None: the request names no serial level, so the server would take its own."""

    cql: str
    level: int
    serial: int | None
    values: tuple[bytes | None, ...]

    @property
    def kind(self) -> str:
        return next((kind for kind, pattern in KINDS.items() if pattern.match(self.cql)), OTHER)


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, count: int) -> bytes:
        part = self._body[self._at : self._at + count]
        assert len(part) == count, "the frame ends too early"
        self._at += count
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=size == 4)

    def optional_bytes(self) -> bytes | None:
        length = self.number(4)
        return None if length < 0 else self.take(length)


def asked(opcode: int, body: bytes, statements: Mapping[bytes, str]) -> Asked | None:
    """What a QUERY or EXECUTE asks for; None for every other frame. `statements` are the prepared ones by id."""
    reader = _Reader(body)
    if opcode == QUERY:
        cql = reader.take(reader.number(4)).decode()
    elif opcode == EXECUTE:
        cql = statements.get(reader.take(reader.number(2)), "")
    else:
        return None
    level, flags = reader.number(2), reader.number(1)
    values: tuple[bytes | None, ...] = ()
    if flags & VALUES:
        values = tuple(reader.optional_bytes() for _ in range(reader.number(2)))
    if flags & PAGE_SIZE:
        reader.number(4)
    if flags & PAGING_STATE:
        reader.optional_bytes()
    return Asked(cql, level, reader.number(2) if flags & SERIAL else None, values)


def to_be_prepared(opcode: int, body: bytes) -> str | None:
    """The statement of a PREPARE."""
    if opcode != PREPARE:
        return None
    reader = _Reader(body)
    return reader.take(reader.number(4)).decode()


def prepared_id(opcode: int, body: bytes) -> bytes | None:
    """The id in the answer to a PREPARE."""
    if opcode != RESULT:
        return None
    reader = _Reader(body)
    return reader.take(reader.number(2)) if reader.number(4) == PREPARED else None


def invalid(stream: int, message: str) -> bytes:
    """The whole frame of a refusal."""
    text = message.encode()
    body = struct.pack(">iH", INVALID, len(text)) + text
    return struct.pack(">BBhBi", RESPONSE_V4, 0, stream, ERROR, len(body)) + body
