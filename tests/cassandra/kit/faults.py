"""What the proxy does to requests: which, to which of them, and what it saw. The doing is in `links`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tests.cassandra.kit.frames import Asked

if TYPE_CHECKING:
    from tests.cassandra.kit.links import Link


class Act(Enum):
    SWALLOW = "the request does not reach the node, and nobody answers"
    HOLD = "the request reaches the node when the fault is lifted"
    DROP_REPLY = "the node does as it was asked, and its answer is lost"
    RESET = "the node does as it was asked, and the connection is reset in place of its answer"
    DELAY = "the answer comes late"


@dataclass(frozen=True)
class Request:
    """One statement that arrived. `at` is on the clock of the runtime. `number`: the node's, counted from 1."""

    at: float
    number: int
    asked: Asked

    @property
    def kind(self) -> str:
        return self.asked.kind

    def text(self, position: int) -> str:
        value = self.asked.values[position]
        return "" if value is None else value.decode()


@dataclass
class Fault:
    """What is done to the next `left` requests of some kinds (None: to all of them). `hit` are those it was done to."""

    act: Act
    kinds: frozenset[str] | None
    nodes: frozenset[int] | None
    left: int | None
    delay_s: float
    hit: list[Request] = field(default_factory=list)
    held: list[tuple[Link, bytes]] = field(default_factory=list)

    def takes(self, request: Request) -> bool:
        return (
            self.left != 0
            and (self.kinds is None or request.kind in self.kinds)
            and (self.nodes is None or request.number in self.nodes)
        )


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
