"""A node without room is refused before it starts, with the name of who is in the way."""

from __future__ import annotations

import os
import socket

import pytest
from ring import RingError, room


def test_a_taken_port_names_its_owner() -> None:
    with socket.create_server(("127.0.9.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(RingError, match=rf"node 2 needs 127.0.9.1:{port}, but pid {os.getpid()} \(.+\) has it"):
            room.check_address(2, "127.0.9.1", port, "--port")
    room.check_address(2, "127.0.9.1", port, "--port")


def test_a_port_that_is_taken_on_every_address_names_its_owner_too() -> None:
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(RingError, match=rf"but pid {os.getpid()} "):
            room.check_address(1, "127.0.9.1", port, "--port")


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(RingError, match="this machine has no such address: choose another --base-ip"):
        room.check_address(1, "192.0.2.1", 9042, "--port")


def test_too_little_memory_is_said_with_what_there_is() -> None:
    room.check_memory(1, 1)
    with pytest.raises(RingError, match=r"3 node\(s\) need 3000000.0 GB of memory, but [\d.]+ GB are free"):
        room.check_memory(3, 10**15)
