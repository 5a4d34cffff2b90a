"""Tells the other nodes what this one runs with, and says it loudly when they do not agree.

Thread `agreement`: each half minute. It stops nothing: which of the nodes is wrong is for people to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from strata_daemon.base import log
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Event, Runtime, Thread
from strata_daemon.ports.nodes import Nodes
from strata_daemon.ports.shared_settings import NodeSettings, SharedSettings

PERIOD_S = 30.0
WRITTEN_EACH_S = 300.0
TTL_S = 900


class Agreement:
    """`problems` may be read by any thread: a list that is replaced as a whole."""

    def __init__(
        self,
        runtime: Runtime,
        shared: SharedSettings,
        nodes: Nodes,
        *,
        node_id: Callable[[], str],
        started_at: datetime,
        gc_shards: int,
    ) -> None:
        self._runtime = runtime
        self._shared = shared
        self._nodes = nodes
        self._node_id = node_id
        self._started_at = started_at
        self._gc_shards = gc_shards
        self._stopping: Event = runtime.event()
        self._thread: Thread | None = None
        self._written_at: float | None = None
        self._written_as = ""
        self.problems: Sequence[str] = ()
        self._log = log.logger("agreement")

    def start(self) -> None:
        self._thread = self._runtime.spawn("agreement", self._run)

    @property
    def thread(self) -> Thread | None:
        return self._thread

    def request_stop(self) -> None:
        self._stopping.set()

    def join(self, timeout_s: float) -> bool:
        return self._thread is None or self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.turn()
            except StoreUnavailable as exc:  # the readiness tells of the store; here it only means "later"
                self._log.debug("settings of the nodes not compared", extra={"error": str(exc)})
            self._stopping.wait(PERIOD_S)

    def turn(self) -> None:
        """Write our row when it is due, and compare it with those of the living nodes. Raises StoreUnavailable."""
        now, name = self._runtime.now(), self._node_id()
        if self._written_at is None or now - self._written_at >= WRITTEN_EACH_S or name != self._written_as:
            self._shared.write(NodeSettings(name, self._started_at, self._gc_shards), TTL_S)
            self._written_at, self._written_as = now, name
        living = {(row.node_id, row.started_at) for row in self._nodes.read() if "gc" in row.workers}
        others = [each for each in self._shared.read() if each.node_id != name]
        problems = [
            f"Node {each.node_id} runs with STRATA_GC_SHARDS {each.gc_shards}, this node with {self._gc_shards}: "
            "parts of the queue are worked on twice or by nobody until all nodes have the same."
            for each in others
            if each.gc_shards != self._gc_shards and (each.node_id, each.started_at) in living
        ]
        for problem in problems:
            if problem not in self.problems:
                self._log.error("settings of the nodes disagree", extra={"error": problem})
        if self.problems and not problems:
            self._log.info("settings of the nodes agree again")
        self.problems = tuple(problems)
