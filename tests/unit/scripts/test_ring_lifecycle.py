"""A ring's nodes are started, broken and ended by number, and nobody else's process is ever touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ring import Fate, RingError
from ring.processes import Process, fate, wait_gone
from ring.state import load, save

if TYPE_CHECKING:
    from .conftest import Kit


def fates(kit: Kit) -> list[Fate]:
    return [node.fate for node in kit.ring.status()]


def test_up_starts_every_node_and_names_them(kit: Kit) -> None:
    assert kit.ring.up(nodes=3, base_ip="127.0.9.1") == [1, 2, 3]
    assert fates(kit) == [Fate.RUNNING] * 3
    assert kit.ring.hosts == ["127.0.9.1", "127.0.9.2", "127.0.9.3"]
    assert kit.ring.pids == {number: process.pid for number, process in kit.processes().items()}


def test_nodes_are_leaders_of_sessions_of_their_own(kit: Kit) -> None:
    kit.ring.up(nodes=1)
    pid = kit.ring.pids[1]
    assert os.getsid(pid) == pid


def test_a_second_up_starts_nothing(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    before = kit.ring.pids
    assert kit.another().up() == []
    assert kit.ring.pids == before
    assert kit.recipe.prepared == [[1, 2]]


def test_up_starts_only_what_is_down(kit: Kit) -> None:
    kit.ring.up(nodes=3)
    before = kit.ring.pids
    kit.ring.kill(2)
    assert fates(kit) == [Fate.RUNNING, Fate.GONE, Fate.RUNNING]
    assert kit.ring.up() == [2]
    after = kit.ring.pids
    assert (after[1], after[3]) == (before[1], before[3])
    assert after[2] != before[2]


def test_pause_and_resume(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    kit.ring.pause(1)
    assert fates(kit) == [Fate.PAUSED, Fate.RUNNING]
    assert kit.ring.status()[0].sees is None
    kit.ring.resume(1)
    assert fates(kit) == [Fate.RUNNING, Fate.RUNNING]


def test_up_leaves_a_paused_node_paused_and_says_so(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    kit.ring.pause(1)
    assert kit.ring.up() == []
    assert fates(kit)[0] is Fate.PAUSED
    assert any("node 1 is paused" in line for line in kit.said)


def test_a_paused_node_can_be_killed(kit: Kit) -> None:
    kit.ring.up(nodes=1)
    kit.ring.pause(1)
    kit.ring.kill(1)
    assert kit.ring.pids == {}


def test_restart_ends_a_running_node_and_starts_it_again(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    before = kit.processes()
    kit.ring.restart(2)
    assert kit.processes()[1] == before[1]
    assert kit.processes()[2] != before[2]
    assert fate(before[2]) is Fate.GONE
    assert fates(kit) == [Fate.RUNNING, Fate.RUNNING]


def test_restart_starts_a_node_that_is_down(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    kit.ring.kill(1)
    kit.ring.restart(1, wait=False)
    assert fates(kit) == [Fate.RUNNING, Fate.RUNNING]


def test_stop_ends_a_paused_node_too(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    ended = kit.processes().values()
    kit.ring.pause(1)
    kit.ring.stop()
    assert all(fate(process) is Fate.GONE for process in ended)
    assert kit.processes() == {}
    assert not any("killed" in line for line in kit.said)


def test_stop_kills_what_does_not_hear_the_term(kit: Kit) -> None:
    kit.recipe.commands[1] = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.01; done"]
    kit.ring.up(nodes=1)
    while "deaf" not in kit.ring.log(1).read_text():
        time.sleep(0.005)
    kit.ring.stop(grace_s=0.1)
    assert kit.ring.pids == {}
    assert any("did not end within 0.1 s: killed" in line for line in kit.said)


def test_a_stopped_ring_keeps_its_options_and_data(kit: Kit) -> None:
    kit.ring.up(nodes=2, paxos="v1")
    data = kit.ring.log(1)
    kit.ring.stop()
    assert data.exists()
    kit.ring.up()
    assert kit.ring.options.paxos == "v1"
    assert kit.ring.options.nodes == 2


def test_wipe_forgets_the_ring(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    kit.ring.stop(wipe=True)
    assert not kit.ring.exists
    assert [entry.name for entry in kit.folder.iterdir()] == ["lock"]


@pytest.mark.parametrize("call", ["kill", "pause", "resume"])
def test_a_node_that_is_down_is_not_signalled(kit: Kit, call: str) -> None:
    kit.ring.up(nodes=1)
    kit.ring.kill(1)
    with pytest.raises(RingError, match="node 1 is down: nothing was done"):
        getattr(kit.ring, call)(1)


def test_a_node_that_does_not_exist_is_refused(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    with pytest.raises(RingError, match="there is no node 3: this ring has 1 to 2"):
        kit.ring.kill(3)


def test_without_a_ring_every_call_says_so(kit: Kit) -> None:
    for call in (kit.ring.status, kit.ring.stop, lambda: kit.ring.kill(1), lambda: kit.ring.restart(1)):
        with pytest.raises(RingError, match="there is no ring in .*: `scripts/cassandra up` makes one"):
            call()


class TestForeign:
    """The pid of a node was given to somebody else: the same pid, born at another moment."""

    @pytest.fixture
    def stranger(self, kit: Kit) -> Iterator[subprocess.Popen[bytes]]:
        kit.ring.up(nodes=1)
        kit.ring.kill(1)
        with subprocess.Popen(["sleep", "600"]) as popen:
            state = load(kit.folder)
            assert state is not None
            # A clock tick is 10 ms, in which this test could start both.
            earlier = replace(state.processes[1], pid=popen.pid, born=f"{state.processes[1].born}0")
            save(kit.folder, state.with_process(1, earlier))
            yield popen
            popen.kill()

    def test_it_is_down_for_us(self, kit: Kit, stranger: subprocess.Popen[bytes]) -> None:
        assert fates(kit) == [Fate.FOREIGN]
        assert kit.ring.pids == {}

    @pytest.mark.parametrize("call", ["kill", "pause", "resume"])
    def test_it_is_not_signalled(self, kit: Kit, stranger: subprocess.Popen[bytes], call: str) -> None:
        with pytest.raises(RingError, match="its pid belongs to another process now"):
            getattr(kit.ring, call)(1)
        assert stranger.poll() is None

    def test_stop_leaves_it_alone_and_says_so(self, kit: Kit, stranger: subprocess.Popen[bytes]) -> None:
        kit.ring.stop()
        assert stranger.poll() is None
        assert f"pid {stranger.pid} of node 1 belongs to another process now: it is left alone" in kit.said

    def test_up_starts_the_node_beside_it(self, kit: Kit, stranger: subprocess.Popen[bytes]) -> None:
        assert kit.ring.up() == [1]
        assert stranger.poll() is None
        assert kit.ring.pids[1] != stranger.pid


def test_a_pid_of_another_boot_is_foreign() -> None:
    assert fate(Process(os.getpid(), "another-boot/1")) is Fate.FOREIGN


def test_two_calls_of_up_start_each_node_once(kit: Kit) -> None:
    started: list[list[int]] = []
    both = threading.Barrier(2)

    def call() -> None:
        both.wait()
        started.append(kit.another().up(nodes=3))

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(started) == [[], [1, 2, 3]]
    assert kit.recipe.prepared == [[1, 2, 3]]


def test_options_of_a_running_ring_are_not_changed(kit: Kit) -> None:
    kit.ring.up(nodes=1)
    with pytest.raises(RingError, match=r"runs with other options \(heap\): call `stop` first"):
        kit.ring.up(heap="1G")
    kit.ring.stop()
    kit.ring.up(heap="1G")
    assert kit.ring.options.heap == "1G"


def test_options_that_the_data_carry_are_never_changed(kit: Kit) -> None:
    kit.ring.up(nodes=1)
    kit.ring.stop()
    with pytest.raises(RingError, match=r"made with other options \(nodes\)\. For a new ring call `stop --wipe`"):
        kit.ring.up(nodes=3)


def test_a_refused_preparation_leaves_no_ring(kit: Kit) -> None:
    kit.recipe.refusal = "no room"
    with pytest.raises(RingError, match="no room"):
        kit.ring.up()
    assert not kit.ring.exists


def test_a_node_that_ends_shows_its_last_lines_and_the_others_are_ended(kit: Kit) -> None:
    kit.recipe.commands[2] = ["sh", "-c", "echo first; echo 'the port is taken'; exit 3"]
    kit.recipe.seen = {1: None}
    with pytest.raises(RingError) as caught:
        kit.ring.up(nodes=2)
    assert str(caught.value).startswith("node 2 ended before the ring was ready.\nLook at ")
    assert str(caught.value).endswith("  | first\n  | the port is taken")
    assert kit.ring.pids == {}


def test_a_ring_that_does_not_become_ready_says_who_is_late_and_is_ended(kit: Kit) -> None:
    kit.recipe.seen = {1: 2, 2: None, 3: 3}
    with pytest.raises(RingError, match="node 1 sees 2 of 3 nodes, node 2 does not answer yet"):
        kit.ring.up(nodes=3, timeout_s=0.1)
    assert kit.ring.pids == {}


def test_a_failed_up_ends_only_what_it_started(kit: Kit) -> None:
    kit.ring.up(nodes=2)
    kit.ring.kill(2)
    kit.recipe.seen = {2: None}
    with pytest.raises(RingError, match="not ready within"):
        kit.ring.up(timeout_s=0.1)
    assert list(kit.ring.pids) == [1]


def test_the_environment_names_what_a_daemon_needs(kit: Kit) -> None:
    kit.ring.up(nodes=2, base_ip="127.0.9.1")
    assert kit.ring.environment == {
        "STRATA_META_BACKEND": "cassandra",
        "STRATA_CASSANDRA_HOSTS": "127.0.9.1,127.0.9.2",
    }
    kit.ring.stop()
    kit.ring.up(port=9999, auth=True, tls=True)
    assert kit.ring.environment == {
        "STRATA_META_BACKEND": "cassandra",
        "STRATA_CASSANDRA_HOSTS": "127.0.9.1:9999,127.0.9.2:9999",
        "STRATA_CASSANDRA_USER": "cassandra",
        "STRATA_CASSANDRA_PASSWORD": "cassandra",
        "STRATA_CASSANDRA_TLS_CA_FILE": str(kit.folder / "tls" / "ca.pem"),
    }


def test_a_process_whose_first_thread_ended_is_not_gone_before_the_others(kit: Kit) -> None:
    exit_of_one_thread = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
    lines = ["import ctypes, threading, time", "threading.Thread(target=time.sleep, args=(600,)).start()"]
    lines += ["print('two', flush=True)", f"ctypes.CDLL(None).syscall({exit_of_one_thread}, 0)"]
    kit.recipe.commands[1] = [sys.executable, "-c", "\n".join(lines)]
    kit.ring.up(nodes=1)
    process = kit.processes()[1]
    while state_letter(process.pid) != "Z":
        time.sleep(0.005)
    assert fate(process) is Fate.RUNNING
    kit.ring.kill(1)
    assert fate(process) is Fate.GONE


def state_letter(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_node_outlives_its_starter_without_becoming_a_zombie(kit: Kit) -> None:
    kit.ring.up(nodes=1)
    process = kit.processes()[1]
    os.kill(process.pid, signal.SIGKILL)
    assert wait_gone([process], 5)
    with pytest.raises(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
