"""A ring that is not there when a daemon starts: it waits, says so once a minute and on /readyz, and still stops."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cassandra.kit.keyspaces import Keyspaces
from tests.cassandra.kit.proxy import Proxy
from tests.cassandra.test_stops import START_S, run
from tests.process.kit import Daemons, eventually


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _get(port: int, path: str) -> tuple[int, str]:
    """(0, why) when nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()
    except OSError as exc:
        return 0, str(exc)


@pytest.mark.parametrize("how", ["refuses", "is silent"])
def test_a_daemon_waits_for_its_ring_and_leads_when_it_comes(
    daemons: Daemons, keyspaces: Keyspaces, proxy: Proxy, tmp_path: Path, how: str
) -> None:
    """faults.md 40: from no host at all to leading, within seconds and not within the driver's ten minutes."""
    proxy.cut() if how == "refuses" else proxy.stall()
    port = _free_port()
    daemon = run(daemons, keyspaces, tmp_path / "state", proxy.hosts, DAEMON_LISTEN=f"127.0.0.1:{port}")
    eventually(lambda: _get(port, "/healthz")[0] == 200, START_S)
    (line,) = daemon.wait_said("stores not reached yet", within_s=START_S)
    assert "no node of the Cassandra ring answers" in line["error"]
    time.sleep(3.0)
    assert len(daemon.said("stores not reached yet")) == 1, "said more often than once a minute"
    code, body = _get(port, "/readyz")
    assert code == 503 and "not connected yet" in body
    assert _get(port, "/healthz")[0] == 200
    proxy.heal()
    daemon.wait_said("leader acquired", within_s=15.0 + START_S)
    eventually(lambda: _get(port, "/readyz")[0] == 200, 5.0)
    daemon.stop(within_s=20.0)


@pytest.mark.parametrize("how", ["refuses", "is silent"])
def test_a_daemon_that_waits_for_its_ring_leaves_at_once_when_it_is_told(
    daemons: Daemons, keyspaces: Keyspaces, proxy: Proxy, tmp_path: Path, how: str
) -> None:
    proxy.cut() if how == "refuses" else proxy.stall()
    daemon = run(daemons, keyspaces, tmp_path / "state", proxy.hosts)
    if how == "refuses":
        daemon.wait_said("stores not reached yet", within_s=START_S)
    else:
        time.sleep(3.0)  # inside the driver's own wait for the first node
    daemon.stop(within_s=2.0)
