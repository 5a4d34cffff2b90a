"""What a node's answer means for how many nodes it sees. The node is a socket that answers by a script."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ring import wire

LOGIN = ("cassandra", "secret")
READY = (wire.READY, b"")
AUTHENTICATE = (wire.AUTHENTICATE, b"")
AUTH_SUCCESS = (wire.AUTH_SUCCESS, b"")
RESULT = (wire.RESULT, b"")


def error(code: int, rest: bytes = b"") -> tuple[int, bytes]:
    return wire.ERROR, struct.pack(">iH", code, 5) + b"sorry" + rest


@contextmanager
def node(answers: list[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    """A node that gives these answers and then hangs up: its port, and the bodies it was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            for opcode, body in answers:
                asked.append(stream.read(struct.unpack(">BBhBi", stream.read(9))[4]))
                connection.sendall(struct.pack(">BBhBi", 0x84, 0, 0, opcode, len(body)) + body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], asked
        thread.join()


def seen(answers: list[tuple[int, bytes]], login: tuple[str, str] | None = None) -> int | None:
    with node(answers) as (port, _):
        return wire.nodes_seen("127.0.0.1", port, 3, tls=None, login=login)


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (RESULT, 3),
        (error(wire.UNAVAILABLE, struct.pack(">Hii", wire.ALL, 3, 2)), 2),
        (error(wire.READ_TIMEOUT, struct.pack(">HiiB", wire.ALL, 1, 3, 0)), 1),
        (error(wire.READ_FAILURE, struct.pack(">Hii", wire.ALL, 2, 3)), 2),
        (error(0x1001), 0),
    ],
    ids=["all", "unavailable", "timeout", "failure", "overloaded"],
)
def test_an_answer_tells_how_many_nodes_are_seen(answer: tuple[int, bytes], count: int) -> None:
    assert seen([READY, answer]) == count


def test_a_login_is_given_when_it_is_asked_for() -> None:
    with node([AUTHENTICATE, AUTH_SUCCESS, RESULT]) as (port, asked):
        assert wire.nodes_seen("127.0.0.1", port, 3, tls=None, login=LOGIN) == 3
    assert asked[1] == struct.pack(">i", 17) + b"\0cassandra\0secret"


@pytest.mark.parametrize(
    "answers",
    [[error(0x100A)], [AUTHENTICATE, error(0x0100)], [], [READY]],
    ids=["not-yet", "bad-login", "hangs-up", "hangs-up-later"],
)
def test_a_node_that_lets_nobody_in_does_not_answer(answers: list[tuple[int, bytes]]) -> None:
    assert seen(answers, LOGIN) is None


def test_a_closed_port_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert wire.nodes_seen("127.0.0.1", port, 3, tls=None, login=None) is None
