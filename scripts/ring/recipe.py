"""How a node is made, started and asked: the seam between a ring and what its nodes are.

`Cassandra` is the real one. Starts nothing itself; which nodes run, and since when, is the ring's.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ring import command, config, jars, java, room, tls, wire
from ring.options import Options

# The superuser that Cassandra makes itself.
LOGIN = ("cassandra", "cassandra")

# Beside its heap a node of 512 MB took 0.4 GB.
BESIDE_HEAP_BYTES = 400 << 20


class Recipe(Protocol):
    def prepare(self, options: Options, numbers: Sequence[int]) -> None:
        """Make ready what these nodes need to start. Raises RingError when they cannot."""
        ...

    def command(self, options: Options, number: int) -> tuple[Sequence[str], Mapping[str, str]]:
        """The command of one node and its environment; only after `prepare`."""
        ...

    def sees(self, options: Options, number: int) -> int | None:
        """How many nodes of the ring this one sees up, itself included; None when it does not answer."""
        ...


class Cassandra:
    """Nodes of a released Cassandra, from jars. `folder` is the ring's, `cache` holds the jars."""

    def __init__(self, folder: Path, cache: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._cache = cache
        self._say = say

    def prepare(self, options: Options, numbers: Sequence[int]) -> None:
        for number in numbers:
            room.check_address(number, options.host(number), options.port, "--port")
            room.check_address(number, options.host(number), options.storage_port, "--storage-port")
            if options.jmx:
                room.check_address(number, "127.0.0.1", options.jmx + number - 1, "--jmx")
        room.check_memory(len(numbers), options.heap_bytes() + BESIDE_HEAP_BYTES)
        jars.require(self._cache, self._say)
        java.require(maven=False, say=self._say)
        certificates = certificates_in(self._folder)
        if options.tls:
            tls.require(certificates, options.hosts)
        for number in numbers:
            home = home_of(self._folder, number)
            (home / "tmp").mkdir(parents=True, exist_ok=True)
            config.write(home / "conf", options, number, certificates)

    def command(self, options: Options, number: int) -> tuple[Sequence[str], Mapping[str, str]]:
        found, _ = java.require(maven=False, say=self._say)
        parts = jars.require(self._cache, self._say)
        home = home_of(self._folder, number)
        return command.command(found, parts, home, options, number), command.environment()

    def sees(self, options: Options, number: int) -> int | None:
        trust = certificates_in(self._folder).ca
        return wire.nodes_seen(
            options.host(number),
            options.port,
            options.nodes,
            tls=ssl.create_default_context(cafile=str(trust)) if options.tls else None,
            login=LOGIN if options.auth else None,
        )


def home_of(folder: Path, number: int) -> Path:
    """The folder of one node: its conf, data and log."""
    return folder / f"node{number}"


def certificates_in(folder: Path) -> tls.Certificates:
    return tls.Certificates(folder / "tls")
