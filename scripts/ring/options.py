"""What a ring is made of: its options, their checks, and the addresses that follow. Reads no file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from ipaddress import IPv4Address
from typing import Any

from ring.errors import RingError

PAXOS = ("v2", "v1")
JIT = ("quick", "full")

# The data of a ring carries these: a node with another address or another number of peers is another ring.
KEPT_BY_DATA = ("nodes", "base_ip", "storage_port")

_UNITS = {"M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Options:
    """The settings of one ring, kept with it. As many fields as there are settings; none has a follow-up."""

    nodes: int = 3
    base_ip: str = "127.0.0.1"
    port: int = 9042
    storage_port: int = 7000
    paxos: str = "v2"
    heap: str = "512M"
    jit: str = "quick"  # full: more throughput after minutes, but the start takes twice as long
    auth: bool = False
    tls: bool = False
    jmx: int = 0  # the port of node 1, on the loopback; 0: no JMX
    settings: tuple[str, ...] = ()  # key=value for cassandra.yaml; an empty value takes the key out

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise RingError(f"a ring has at least one node, not {self.nodes}.")
        for name, value, known in (("paxos", self.paxos, PAXOS), ("jit", self.jit, JIT)):
            if value not in known:
                raise RingError(f"{name} is {' or '.join(known)}, not {value!r}.")
        for name, port in (("port", self.port), ("storage port", self.storage_port)):
            if not 0 < port < 65536:
                raise RingError(f"the {name} {port} is none: 1 to 65535.")
        if not 0 <= self.jmx <= 65536 - self.nodes:
            raise RingError(f"the JMX port {self.jmx} is none: 1 to 65535, and one more for each further node.")
        for setting in self.settings:
            if not re.match(r"\w+=", setting):
                raise RingError(f"a setting of cassandra.yaml is key=value, not {setting!r}.")
        self.heap_bytes()
        try:
            self.host(self.nodes)
        except ValueError:
            raise RingError(f"{self.base_ip!r} is no IPv4 address with room for {self.nodes} nodes.") from None

    def host(self, number: int) -> str:
        """The address of node `number`, counted from 1."""
        return str(IPv4Address(self.base_ip) + (number - 1))

    @property
    def numbers(self) -> range:
        return range(1, self.nodes + 1)

    @property
    def hosts(self) -> list[str]:
        return [self.host(number) for number in self.numbers]

    def heap_bytes(self) -> int:
        match = re.fullmatch(r"(\d+)([MG])", self.heap.upper())
        if not match:
            raise RingError(f"a heap is given like 512M or 1G, not {self.heap!r}.")
        return int(match[1]) * _UNITS[match[2]]

    def changed(self, changes: Mapping[str, Any]) -> Options:
        """These options with `changes`, by name; what is None is as it was."""
        given = {name: value for name, value in changes.items() if value is not None}
        unknown = given.keys() - {field.name for field in fields(self)}
        if unknown:
            raise TypeError(f"a ring has no option {', '.join(sorted(unknown))}")
        if "settings" in given:
            given["settings"] = tuple(given["settings"])
        return replace(self, **given)

    def differences(self, other: Options) -> list[str]:
        """The names of the options that differ."""
        return [field.name for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Options:
        return cls(**{**values, "settings": tuple(values["settings"])})
