"""The HTTP server: falcon on waitress. `http` is the thread of its loop, `http-0` and on answer the requests.

The socket is bound at construction, so a port in use is told before anything else starts. Slow clients cost a
descriptor, not a thread; headers and connections are bounded. It does not hold off a client that takes every
connection: the bound keeps the process alive, not the port open to others.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import falcon
from waitress import wasyncore
from waitress.server import create_server

from strata_daemon.base import log
from strata_daemon.base.errors import PreflightError
from strata_daemon.base.runtime import Latch, Runtime, Thread
from strata_daemon.http.wire import RefusingChannel, RuntimeDispatcher

THREADS = 4
CONNECTIONS = 100
HEADER_BYTES = 16_384
BODY_BYTES = 1024  # nothing here takes a body
IDLE_S = 10
LOOP_S = 1.0
WILDCARDS = ("", "0.0.0.0", "::")


class HttpServer:
    """Bound when made, serving from `start` to `request_stop`. `port` None: there is no server at all."""

    def __init__(self, host: str, port: int | None, runtime: Runtime) -> None:
        self._runtime = runtime
        self._stop = Latch(runtime.event())
        self._thread: Thread | None = None
        self._server: Any = None
        self._socket = None if port is None else _bind(host, port)
        shown = socket.gethostname() if host in WILDCARDS else host
        bound = self._socket.getsockname()[1] if self._socket is not None else None
        self.address = shown if bound is None else f"[{shown}]:{bound}" if ":" in shown else f"{shown}:{bound}"

    def start(self, app: falcon.App[Any, Any]) -> None:
        """Serve `app`; when something is served already, serve it instead from the next request on."""
        if self._socket is None:
            return
        if self._server is not None:
            self._server.application = app
            return
        self._server = create_server(
            app,
            map={},
            sockets=[self._socket],
            _dispatcher=RuntimeDispatcher(self._runtime, THREADS),
            connection_limit=CONNECTIONS,
            max_request_header_size=HEADER_BYTES,
            max_request_body_size=BODY_BYTES,
            channel_timeout=IDLE_S,
            cleanup_interval=IDLE_S,
            clear_untrusted_proxy_headers=True,
            ident=None,
        )
        self._server.channel_class = RefusingChannel
        self._thread = self._runtime.spawn("http", self._run)

    @property
    def thread(self) -> Thread | None:
        return self._thread

    def request_stop(self) -> None:
        """Once only: a second call could write to a descriptor that the first has let go."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._server is not None:
            self._server.pull_trigger()

    def join(self, timeout_s: float) -> bool:
        if self._thread is None:
            self._close()
            return True
        return self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                wasyncore.loop(timeout=LOOP_S, map=self._server._map, count=1)
        finally:
            self._server.task_dispatcher.shutdown(timeout=1)
            wasyncore.close_all(self._server._map)
            self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises PreflightError: what is in the way, and what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(CONNECTIONS)
    except OSError as exc:
        bound.close()
        raise PreflightError(
            f"Cannot listen on {host}:{port}: {exc.strerror or exc}."
            " Choose another address by STRATA_DAEMON_LISTEN (port 0 takes a free one, `off` none)."
        ) from exc
    return bound


def build_app(
    problems: Callable[[], list[str]], unready: Callable[[], list[str]], metrics: Callable[[], bytes]
) -> falcon.App[Any, Any]:
    """`problems` and `unready` give sentences, none when all is well."""
    app = falcon.App()
    app.set_error_serializer(_as_json)
    app.add_error_handler(Exception, _tell)
    app.add_route("/healthz", _Verdict(problems))
    app.add_route("/readyz", _Verdict(unready))
    app.add_route("/metrics", _Metrics(metrics))
    return app


def _as_json(_request: falcon.Request, response: falcon.Response, error: falcon.HTTPError) -> None:
    """Whatever the client accepts: falcon would leave the body out, or write XML."""
    response.content_type = falcon.MEDIA_JSON
    response.data = error.to_json()


def _tell(request: falcon.Request, _response: falcon.Response, error: Exception, _params: dict[str, Any]) -> None:
    """A bug of ours: into the log, since falcon's own handler writes to stderr."""
    log.logger("http").error("request failed", extra={"path": request.path}, exc_info=error)
    raise falcon.HTTPInternalServerError(description="A bug; the log tells more.")


class _ReadOnly:
    """GET and HEAD; falcon would answer OPTIONS by itself."""

    def on_options(self, _request: falcon.Request, _response: falcon.Response) -> None:
        raise falcon.HTTPMethodNotAllowed(["GET", "HEAD"])


class _Verdict(_ReadOnly):
    """200 with no problems, 503 with them."""

    def __init__(self, problems: Callable[[], list[str]]) -> None:
        self._problems = problems

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        found = self._problems()
        response.status = falcon.HTTP_503 if found else falcon.HTTP_200
        response.media = {"status": "unhealthy" if found else "ok", "problems": found}
        response.cache_control = ["no-store"]

    on_head = on_get


class _Metrics(_ReadOnly):
    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        response.content_type = "text/plain; version=0.0.4; charset=utf-8"
        response.data = self._render()

    on_head = on_get
