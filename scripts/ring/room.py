"""Whether this machine has room for a node: memory, addresses, and who sits on a taken port. Changes nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address
from pathlib import Path

from ring.errors import RingError

LISTENS = "0A"  # the state of a socket in /proc/net/tcp
ANY = IPv4Address(0)


def check_memory(nodes: int, node_bytes: int) -> None:
    available = _available_bytes()
    wanted = nodes * node_bytes
    if available < wanted:
        raise RingError(
            f"{nodes} node(s) need {wanted / 1e9:.1f} GB of memory, but {available / 1e9:.1f} GB are free: "
            "end something, or ask for fewer nodes (--nodes) or a smaller heap (--heap 384M)."
        )


def check_address(number: int, host: str, port: int, option: str) -> None:
    """Raise RingError when node `number` cannot listen on `host`:`port`, which is chosen by `option`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: a port in TIME_WAIT is free
        try:
            probe.bind((host, port))
        except OSError as exc:
            raise RingError(_refusal(exc, number, f"{host}:{port}", _owner(host, port), option)) from exc


def free_base(bases: Sequence[str], nodes: int, ports: Sequence[int]) -> str:
    """The first of `bases` from which on `nodes` addresses can be listened on at all `ports`. Raises RingError."""
    problem = RingError("no address is known for a ring")
    for base in bases:
        try:
            for number in range(nodes):
                for port in ports:
                    check_address(number + 1, str(IPv4Address(base) + number), port, "--port")
            return base
        except RingError as exc:
            problem = exc
    raise problem


def _refusal(exc: OSError, number: int, address: str, owner: str, option: str) -> str:
    if exc.errno == errno.EADDRINUSE:
        return f"node {number} needs {address}, but {owner} has it: end that, or choose another {option} or --base-ip."
    if exc.errno == errno.EADDRNOTAVAIL:
        return f"node {number} needs {address}, but this machine has no such address: choose another --base-ip."
    return f"node {number} needs {address}, but cannot listen there: {exc.strerror}."


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RingError("/proc/meminfo does not say how much memory is available.")


def _owner(host: str, port: int) -> str:
    """Who listens there, as far as this user may see it."""
    inodes = set(_listeners(host, port))
    for pid in sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if inodes & set(_sockets(pid)):
            with contextlib.suppress(OSError):
                return f"pid {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    return "a process of another user or namespace"


def _listeners(host: str, port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on this port, on this address or on any."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for fields in map(str.split, rows):
            address, _, hex_port = fields[1].partition(":")
            # The address is in the machine's byte order; of an IPv6 one the last word is the IPv4 part, or zero.
            here = IPv4Address(bytes.fromhex(address[-8:])[::-1])
            if fields[3] == LISTENS and int(hex_port, 16) == port and here in (ANY, IPv4Address(host)):
                yield fields[9]


def _sockets(pid: int) -> Iterator[str]:
    """The inodes of the sockets that a process holds."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return  # ended, or not ours to look into
    for name in names:
        with contextlib.suppress(OSError):  # closed meanwhile
            link = os.readlink(f"/proc/{pid}/fd/{name}")
            if link.startswith("socket:["):
                yield link[len("socket:[") : -1]
