"""A daemon on a ring as a process, and what it tells of itself: its log lines, its metrics, its health.

Instants are wall seconds (`time.time`), since log lines bear wall times and all runs on one machine.
"""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType

from processes import LEADS, PRODUCT, STANDS_BY, Failed, Process
from prometheus_client.parser import text_string_to_metric_families
from ring_ground import Ground

LOST, RELEASED = "leader lease lost", "leader released"
PASS = "gc pass finished"
HTTP_S = 5.0

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a daemon's log."""

    at: float
    msg: str
    fields: Mapping[str, object]

    @property
    def lease(self) -> str:
        return str(self.fields.get("lease", ""))


@dataclass(frozen=True, slots=True)
class Sample:
    """What /metrics said at one instant, with the labels of each series."""

    at: float
    series: Mapping[str, list[tuple[Labels, float]]]

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that bear these labels; 0 without any."""
        wanted = labels.items()
        return sum(value for found, value in self.series.get(name, ()) if wanted <= dict(found).items())


def read_log(log: Path) -> Iterator[Line]:
    for text in log.read_text(errors="replace").splitlines():
        try:
            fields = json.loads(text)
            yield Line(_instant(fields["time"]), fields["msg"], fields)
        except (ValueError, KeyError, TypeError):
            continue  # not a log line, or not whole yet


class Daemon:
    """One started process. Use it by `with`: what still runs at the end is killed."""

    def __init__(self, ground: Ground, state: Path, node: str, **settings: str) -> None:
        self.node = node
        self.port = _free_port()
        state.mkdir(parents=True, exist_ok=True)
        own = ground.settings(state, NODE_ID=node, DAEMON_LISTEN=f"127.0.0.1:{self.port}", **settings)
        self.started_at = time.time()
        self.log = state / f"log-{node}"
        self.process = Process([*PRODUCT, "run"], own, self.log)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()

    def wait_started(self) -> Daemon:
        self.process.wait_line(STANDS_BY)
        return self

    def wait_leads(self, count: int = 1, within_s: float = 60.0) -> Daemon:
        """Until it acquired so many leases in all."""
        self.process.wait_line(LEADS, count, within_s=within_s)
        return self

    def lines(self, *msgs: str) -> list[Line]:
        """The lines that bear one of these phrases; without any, all."""
        return [line for line in read_log(self.log) if not msgs or line.msg in msgs]

    def acquired(self, since: float = 0.0) -> list[Line]:
        return [line for line in self.lines(LEADS) if line.at >= since]

    def lost(self, since: float = 0.0) -> list[Line]:
        return [line for line in self.lines(LOST) if line.at >= since]

    def sample(self) -> Sample:
        """Raises Failed when it does not answer."""
        began = time.time()
        text = self._get("/metrics")[1]
        series: dict[str, list[tuple[Labels, float]]] = {}
        for family in text_string_to_metric_families(text):
            for each in family.samples:
                series.setdefault(each.name, []).append((each.labels, each.value))
        return Sample((began + time.time()) / 2, series)

    def problems(self) -> list[str]:
        """What /healthz complains of."""
        return list(json.loads(self._get("/healthz")[1])["problems"])

    def held(self) -> int:
        return int(self.sample().total("strata_daemon_lease_held"))

    def term(self) -> float:
        """SIGTERM; the instant just before it."""
        at = time.time()
        self.process.send(signal.SIGTERM)
        return at

    def stop(self) -> None:
        """Ends it in the ordinary way. Raises Failed for another code than 0."""
        self.term()
        code = self.process.wait_end()
        if code != 0:
            raise Failed(f"a daemon ended by SIGTERM with code {code}")

    def _get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=HTTP_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.read().decode()
        except OSError as exc:
            raise Failed(f"{self.node} does not answer {path}: {exc}") from exc


def _instant(written: str) -> float:
    return datetime.fromisoformat(written.replace("Z", "+00:00")).timestamp()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
