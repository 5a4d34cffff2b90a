"""Asks one node over native protocol v4 how many nodes it sees: just enough of the protocol for readiness.

An open port is not enough: a node listens before its peers know it, and then refuses what needs a majority.
"""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType

STARTUP, QUERY, AUTH_RESPONSE = 0x01, 0x07, 0x0F
ERROR, READY, AUTHENTICATE, RESULT, AUTH_SUCCESS = 0x00, 0x02, 0x03, 0x08, 0x10
UNAVAILABLE, READ_TIMEOUT, READ_FAILURE = 0x1000, 0x1200, 0x1300

VERSION = 4
ALL = 0x0005

# Every node has a copy (see cassandra.system_auth.default_rf), so a read at ALL asks each of them.
QUESTION = "SELECT role FROM system_auth.roles WHERE role = 'cassandra'"

CONNECT_S = 2.0
ANSWER_S = 6.0  # longer than Cassandra's read_request_timeout of 5 s, after which it says who answered


class Refused(Exception):
    """The node answered with an error, or with something that is not the protocol."""


class Connection:
    """One connection, one question at a time. Raises OSError and Refused."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        plain = socket.create_connection((host, port), CONNECT_S)
        try:
            plain.settimeout(ANSWER_S)
            self._socket = tls.wrap_socket(plain, server_hostname=host) if tls else plain
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, opcode: int, body: bytes) -> tuple[int, bytes]:
        """One frame there, one back: its opcode and body."""
        self._socket.sendall(struct.pack(">BBhBi", VERSION, 0, 0, opcode, len(body)) + body)
        _, _, _, answer, length = struct.unpack(">BBhBi", self._receive(9))
        return answer, self._receive(length)

    def log_in(self, login: tuple[str, str] | None) -> None:
        answer, _ = self.ask(STARTUP, struct.pack(">H", 1) + _string("CQL_VERSION") + _string("3.0.0"))
        if answer == AUTHENTICATE and login:
            token = "".join(f"\0{part}" for part in login).encode()
            answer, _ = self.ask(AUTH_RESPONSE, struct.pack(">i", len(token)) + token)
        if answer not in (READY, AUTH_SUCCESS):
            raise Refused(f"no login: opcode {answer:#x}")

    def _receive(self, count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise Refused("the node closed the connection")
            parts += part
        return parts


def nodes_seen(
    host: str, port: int, nodes: int, *, tls: ssl.SSLContext | None, login: tuple[str, str] | None
) -> int | None:
    """How many of `nodes` the one at `host` sees up, itself included; None when it does not answer or let us in."""
    try:
        with Connection(host, port, tls) as connection:
            connection.log_in(login)
            question = QUESTION.encode()
            asked = struct.pack(">i", len(question)) + question + struct.pack(">HB", ALL, 0)
            answer, body = connection.ask(QUERY, asked)
            return nodes if answer == RESULT else _answered(body)
    except (OSError, Refused, struct.error):
        return None


def _answered(body: bytes) -> int:
    """Of an error: how many replicas were alive, or did answer. 0 when it does not say."""
    code, length = struct.unpack_from(">iH", body)
    at = 6 + length + 2  # behind the message and the consistency
    if code == UNAVAILABLE:
        return int(struct.unpack_from(">i", body, at + 4)[0])  # behind how many are required
    if code in (READ_TIMEOUT, READ_FAILURE):
        return int(struct.unpack_from(">i", body, at)[0])
    return 0


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()
