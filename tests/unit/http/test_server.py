"""The HTTP face on a real socket."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from strata_daemon.base.errors import PreflightError
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.http.readiness import Readiness
from strata_daemon.http.server import HttpServer, build_app


class Face:
    """A served app whose answers a test sets."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.unready: list[str] = []
        self.server = HttpServer("127.0.0.1", 0, RealRuntime())
        self.server.start(build_app(lambda: self.problems, lambda: self.unready, lambda: b"strata_x 1\n"))

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        request = urllib.request.Request(f"http://{self.server.address}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read()

    def raw(self, payload: bytes) -> bytes:
        host, _, port = self.server.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as sock:
            sock.sendall(payload)
            return sock.recv(65_536)


@pytest.fixture
def face() -> Iterator[Face]:
    face = Face()
    yield face
    face.server.request_stop()
    assert face.server.join(3.0)


def test_health_is_200_with_no_problem_and_503_with_one(face: Face) -> None:
    assert face.get("/healthz")[0] == 200
    face.problems = ["Thread lease-timer is dead."]
    code, body = face.get("/healthz")
    assert code == 503
    assert json.loads(body) == {"status": "unhealthy", "problems": ["Thread lease-timer is dead."]}


def test_readiness_tells_which_store_does_not_answer(face: Face) -> None:
    assert face.get("/readyz")[0] == 200
    face.unready = ["The lease store does not answer: busy"]
    code, body = face.get("/readyz")
    assert code == 503 and b"lease store" in body


def test_metrics_are_plain_text(face: Face) -> None:
    assert face.get("/metrics") == (200, b"strata_x 1\n")


def test_a_head_request_has_no_body(face: Face) -> None:
    assert face.get("/healthz", "HEAD") == (200, b"")


@pytest.mark.parametrize(
    ("path", "method", "code"),
    [("/nope", "GET", 404), ("/healthz", "POST", 405), ("/metrics", "OPTIONS", 405), ("/", "TRACE", 404)],
)
def test_what_is_not_there_is_a_clear_refusal(face: Face, path: str, method: str, code: int) -> None:
    assert face.get(path, method)[0] == code


@pytest.mark.parametrize(
    "payload",
    [
        b"GET /healthz HTTP/1.1\r\nHost: \x00\xff<script>\r\n\r\n",
        b"GET /%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: nonsense\r\n\r\n",
        b"GET http://[::1/healthz HTTP/1.1\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ],
    ids=["host", "path", "length", "header", "coding", "target", "body", "tls"],
)
def test_hostile_requests_are_no_server_errors(face: Face, payload: bytes) -> None:
    answer = face.raw(payload + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1."), answer[:200]
    assert not answer.split(b"\r\n", 1)[0].startswith((b"HTTP/1.0 5", b"HTTP/1.1 5")), answer[:200]
    assert face.get("/healthz")[0] == 200


def test_slow_clients_hold_up_nobody(face: Face) -> None:
    host, _, port = face.server.address.rpartition(":")
    slow = [socket.create_connection((host, int(port)), timeout=5) for _ in range(20)]
    try:
        for sock in slow:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        assert face.get("/healthz")[0] == 200
    finally:
        for sock in slow:
            sock.close()


def test_a_port_in_use_is_told_before_anything_starts(face: Face) -> None:
    port = int(face.server.address.rpartition(":")[2])
    with pytest.raises(PreflightError, match=rf"127.0.0.1:{port}.*STRATA_DAEMON_LISTEN"):
        HttpServer("127.0.0.1", port, RealRuntime())


def test_a_stop_with_an_open_idle_connection_is_quick() -> None:
    face = Face()
    host, _, port = face.server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5):
        face.server.request_stop()
        assert face.server.join(2.5)


def test_without_a_port_there_is_no_server() -> None:
    server = HttpServer("", None, RealRuntime())
    server.start(build_app(list, list, bytes))
    server.request_stop()
    assert server.join(0.1)


def test_a_header_of_a_megabyte_is_refused_and_harms_nobody(face: Face) -> None:
    host, _, port = face.server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as sock:
        try:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n")
            answer = sock.recv(65_536)
        except ConnectionError:  # refused before all of it was sent
            answer = b""
    assert answer == b"" or b" 431 " in answer.split(b"\r\n", 1)[0]
    assert face.get("/healthz")[0] == 200


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "nonsense"])
def test_a_refusal_is_json_whatever_the_client_accepts(face: Face, accept: str) -> None:
    request = urllib.request.Request(f"http://{face.server.address}/nope", headers={"Accept": accept})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=5)
    with caught.value as answer:
        assert answer.code == 404 and answer.headers["Content-Type"] == "application/json"
        assert json.loads(answer.read())["title"] == "404 Not Found"


def test_a_bug_behind_a_path_is_logged_and_not_printed(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken() -> bytes:
        raise RuntimeError("the secret cause")

    server = HttpServer("127.0.0.1", 0, RealRuntime())
    server.start(build_app(list, list, broken))
    try:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://{server.address}/metrics", timeout=5)
        with caught.value as answer:
            assert answer.code == 500 and b"secret" not in answer.read()
    finally:
        server.request_stop()
        assert server.join(3.0)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("ERROR", "request failed")]
    assert capfd.readouterr().err == ""


def test_a_store_that_hangs_does_not_silence_health() -> None:
    """More readiness probes than the server has threads, on a store that never answers."""
    answer = threading.Event()
    readiness = Readiness(RealRuntime(), {"metadata": answer.wait})
    server = HttpServer("127.0.0.1", 0, RealRuntime())
    server.start(build_app(list, readiness.unready, bytes))
    host, _, port = server.address.rpartition(":")
    probes = [socket.create_connection((host, int(port)), timeout=5) for _ in range(8)]
    try:
        for probe in probes:
            probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert urllib.request.urlopen(f"http://{server.address}/healthz", timeout=2).status == 200
        assert all(b" 503 " in probe.recv(4096).split(b"\r\n", 1)[0] for probe in probes)
    finally:
        answer.set()
        for probe in probes:
            probe.close()
        server.request_stop()
        assert server.join(3.0)


def test_its_threads_carry_its_name_and_end_with_it() -> None:
    def ours() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name.startswith(("http", "waitress"))}

    before = ours()
    face = Face()
    assert ours() - before == {"http", "http-0", "http-1", "http-2", "http-3"}
    face.server.request_stop()
    assert face.server.join(3.0)
    assert ours() == before


def test_a_second_request_to_stop_does_nothing(face: Face) -> None:
    face.server.request_stop()
    assert face.server.join(3.0)
    face.server.request_stop()
