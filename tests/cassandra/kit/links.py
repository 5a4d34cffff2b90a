"""The proxy's listeners and connections: frames go through whole, or are dealt with as a fault says.

Two threads a connection, one a direction; a third a node accepts. All end at `close`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Protocol

from tests.cassandra.kit.faults import Act, Fault
from tests.cassandra.kit.frames import HEAD_BYTES, Asked, Head, invalid, prepared_id, to_be_prepared

CONNECT_S = 5.0
LOOK_S = 0.05
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Desk(Protocol):
    """What a connection tells and asks of the whole proxy."""

    def note(self, number: int, statement: Asked) -> Fault | None:
        """Keep what arrived; the fault that is meant for it."""
        ...

    def hold(self, fault: Fault, link: Link, frame: bytes) -> bool:
        """Whether the frame is held; not when the fault was lifted meanwhile."""
        ...

    def learn(self, statement_id: bytes, cql: str) -> None: ...

    def statement(self, opcode: int, body: bytes) -> Asked | None: ...


class Node:
    """Listens before one node. `flow` is clear while the node is stalled."""

    def __init__(self, proxy: Desk, number: int, host: str, port: int, target_port: int) -> None:
        self.proxy, self.number, self.host = proxy, number, host
        self._port, self._target = port, (host, target_port)
        self.flow = threading.Event()
        self.flow.set()
        self._lock = threading.Lock()  # guards what follows
        self._links: list[Link] = []
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self.listen()

    def listen(self) -> None:
        with self._lock:
            if self._listener is not None:
                return
            listener = socket.socket()
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((self.host, self._port))
                listener.listen(64)
            except OSError:
                listener.close()
                raise
            self._listener = listener
            self._thread = threading.Thread(target=self._accept, args=(listener,), name=f"proxy-{self.number}")
            self._thread.start()

    def stop_listening(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
            thread, self._thread = self._thread, None
        if listener is not None and thread is not None:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
            thread.join()
            listener.close()
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.reset()

    def close(self) -> None:
        self.flow.set()
        self.stop_listening()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, CONNECT_S)
            except OSError:
                client.close()
                continue
            link = Link(self, client, server)
            with self._lock:
                self._links = [each for each in self._links if each.is_open] + [link]
            link.start()


class Link:
    """One connection of a client to one node. Frames go whole, so threads may write between each other's."""

    def __init__(self, node: Node, client: socket.socket, server: socket.socket) -> None:
        self._node, self._proxy = node, node.proxy
        self._client, self._server = client, server
        for each in (client, server):
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()  # guards the writing to either side, and what follows
        self._open: dict[int, tuple[str | None, Fault | None]] = {}
        self._pumps = 2
        self.is_open = True
        self._threads = [
            threading.Thread(target=self._run, args=(pump,), name=f"proxy-{node.number}-{name}")
            for name, pump in (("up", self._requests), ("down", self._replies))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def reset(self) -> None:
        """End the client's side by a reset, as a node that dies does, and wait for both threads."""
        self._end(is_reset=True)
        for thread in self._threads:
            thread.join()

    def _end(self, *, is_reset: bool = False) -> None:
        """Wake both threads; the last one closes. A socket that is shut for reading only sends nothing before its
        close, which then is a reset."""
        with contextlib.suppress(OSError):
            if is_reset:
                self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.is_open = False
        for side, how in (
            (self._client, socket.SHUT_RD if is_reset else socket.SHUT_RDWR),
            (self._server, socket.SHUT_RDWR),
        ):
            with contextlib.suppress(OSError):
                side.shutdown(how)

    def _run(self, pump: Callable[[], bool]) -> None:
        is_reset = False
        try:
            is_reset = pump()
        except OSError:
            pass  # either side went away
        finally:
            if self.is_open:
                self._end(is_reset=is_reset)
            with self._lock:
                self._pumps -= 1
                if self._pumps == 0:
                    self._client.close()
                    self._server.close()

    def to_server(self, frame: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._server.sendall(frame)

    def _to_client(self, frame: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._client.sendall(frame)

    def _frame(self, side: socket.socket) -> tuple[Head, bytes]:
        raw = _exactly(side, HEAD_BYTES)
        head = Head.of(raw)
        frame = raw + _exactly(side, head.length)
        while not self._node.flow.wait(LOOK_S):
            if not self.is_open:
                raise ConnectionError("ended while it was stalled")
        return head, frame

    def _requests(self) -> bool:
        while True:
            head, frame = self._frame(self._client)
            body = frame[HEAD_BYTES:]
            statement = self._proxy.statement(head.opcode, body)
            fault = None
            if statement is not None:
                if "system.peers_v2" in statement.cql:
                    self._to_client(invalid(head.stream, "unconfigured table peers_v2"))
                    continue
                fault = self._proxy.note(self._node.number, statement)
            with self._lock:
                self._open[head.stream] = to_be_prepared(head.opcode, body), fault
            if fault is not None and fault.act is Act.SWALLOW:
                continue
            if fault is not None and fault.act is Act.HOLD and self._proxy.hold(fault, self, frame):
                continue
            self.to_server(frame)

    def _replies(self) -> bool:
        """Until a side ends; True: by a fault that resets."""
        while True:
            head, frame = self._frame(self._server)
            with self._lock:
                cql, fault = self._open.pop(head.stream, (None, None))
            if cql is not None and (statement_id := prepared_id(head.opcode, frame[HEAD_BYTES:])) is not None:
                self._proxy.learn(statement_id, cql)
            match fault.act if fault is not None else None:
                case Act.DROP_REPLY:
                    continue
                case Act.RESET:
                    return True
                case Act.DELAY:
                    assert fault is not None
                    timer = threading.Timer(fault.delay_s, self._to_client, (frame,))
                    timer.daemon = True
                    timer.start()
                case _:
                    self._to_client(frame)


def _exactly(side: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = side.recv(count - len(parts))
        if not part:
            raise ConnectionError("the other side has closed")
        parts += part
    return bytes(parts)
