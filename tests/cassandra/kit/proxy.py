"""A TCP proxy before each node's CQL port: delays, swallows, drops replies only, resets, stalls and cuts.

It listens on the nodes' own addresses with another port. The driver learns ports from `system.peers_v2`; the proxy
refuses that one query, as a node of version 3 would, and so the driver takes its own port for every node.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from tests.cassandra.kit.faults import Act, Fault, Request, now
from tests.cassandra.kit.frames import Asked, asked
from tests.cassandra.kit.links import Link, Node

__all__ = ["Act", "Fault", "Proxy", "Request"]

FIRST_PORT, LAST_PORT = 19042, 19142


class Proxy:
    """Before all nodes of a ring. Callable from any thread; `_lock` guards the faults and what was seen."""

    def __init__(self, hosts: Sequence[str], port: int) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._seen: list[Request] = []
        self._statements: dict[bytes, str] = {}
        self.port, self._nodes = self._listen(hosts, port)

    def _listen(self, hosts: Sequence[str], target_port: int) -> tuple[int, list[Node]]:
        """All nodes on one port: the driver takes that of its first contact point for all."""
        for port in range(FIRST_PORT, LAST_PORT):
            opened: list[Node] = []
            try:
                for number, host in enumerate(hosts, 1):
                    opened.append(Node(self, number, host, port, target_port))
                return port, opened
            except OSError as exc:
                problem = exc
                for node in opened:
                    node.close()
        raise AssertionError(f"the proxy cannot listen before {', '.join(hosts)}: {problem}; it needs a local ring")

    @property
    def hosts(self) -> str:
        """The contact points, for STRATA_CASSANDRA_HOSTS."""
        return ",".join(f"{node.host}:{self.port}" for node in self._nodes)

    # -- what went through

    def seen(self, *kinds: str, since: float = 0.0) -> list[Request]:
        """The requests so far, in the order of their arrival; all kinds when none is named."""
        with self._lock:
            return [each for each in self._seen if each.at >= since and (not kinds or each.kind in kinds)]

    # -- what is done to requests

    def fault(
        self,
        act: Act,
        *kinds: str,
        count: int | None = None,
        nodes: Collection[int] | None = None,
        delay_s: float = 0.0,
    ) -> Fault:
        """Do `act` to the next `count` requests of these kinds (default: for ever, to every statement)."""
        made = Fault(
            act, frozenset(kinds) if kinds else None, None if nodes is None else frozenset(nodes), count, delay_s
        )
        with self._lock:
            self._faults.append(made)
        return made

    def lift(self, fault: Fault) -> None:
        """No more of it; what it held goes to the nodes now."""
        with self._lock:
            self._faults.remove(fault)
            held, fault.held = fault.held, []
        for link, frame in held:
            link.to_server(frame)

    # -- what is done to connections

    def stall(self, *numbers: int) -> None:
        """These nodes (all, when none is named) accept and answer nothing, until `heal`; what was sent to them
        meanwhile is executed then, as by a network that was cut or a node that stood still."""
        for node in self._chosen(numbers):
            node.flow.clear()

    def cut(self, *numbers: int) -> None:
        """These nodes refuse connections, and the open ones are reset."""
        for node in self._chosen(numbers):
            node.stop_listening()

    def heal(self) -> None:
        for node in self._nodes:
            node.flow.set()
            node.listen()

    def close(self) -> None:
        for node in self._nodes:
            node.close()

    def _chosen(self, numbers: Collection[int]) -> list[Node]:
        return [node for node in self._nodes if not numbers or node.number in numbers]

    # -- for the links

    def note(self, number: int, statement: Asked) -> Fault | None:
        """Keep what arrived; the fault that is meant for it."""
        request = Request(now(), number, statement)
        with self._lock:
            self._seen.append(request)
            fault = next((each for each in self._faults if each.takes(request)), None)
            if fault is not None:
                fault.left = None if fault.left is None else fault.left - 1
                fault.hit.append(request)
        return fault

    def hold(self, fault: Fault, link: Link, frame: bytes) -> bool:
        """Whether it is held; not when the fault was lifted meanwhile."""
        with self._lock:
            if fault not in self._faults:
                return False
            fault.held.append((link, frame))
            return True

    def learn(self, statement_id: bytes, cql: str) -> None:
        with self._lock:
            self._statements[statement_id] = cql

    def statement(self, opcode: int, body: bytes) -> Asked | None:
        with self._lock:
            return asked(opcode, body, self._statements)
