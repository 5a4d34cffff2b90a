"""Which node coordinates a request: ours to choose, since the driver alone sends each try for a lease to the same node.

Measured: a node that answers but is cut off from its peers costs 27 s of renewals without this, and 2 s with it
(cassandra-facts.md I.0.2). A node that gave a time-out, an error or no answer goes last for ten seconds. Thread-safe.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from strata_daemon.base.runtime import Runtime

PENALTY_S = 10.0
KNOWN_S = 30.0  # how long the replicas of a key are remembered: the ring changes seldom, the lookup costs


class Hosts:
    """The nodes of the local data centre, by cluster metadata that the driver keeps current."""

    def __init__(self, cluster: Any, local_dc: str, runtime: Runtime) -> None:
        self._cluster = cluster
        self._local_dc = local_dc
        self._runtime = runtime
        self._turn = itertools.count()
        self._lock = threading.Lock()  # guards _bad_until and _replicas
        self._bad_until: dict[Any, float] = {}
        self._replicas: dict[tuple[str, bytes], tuple[float, list[Any]]] = {}

    def local(self) -> list[Any]:
        """Every node of the local data centre, up or not, in a stable order."""
        found = [host for host in self._cluster.metadata.all_hosts() if host.datacenter == self._local_dc]
        return sorted(found, key=lambda host: str(host.endpoint))

    def failed(self, host: Any) -> None:
        with self._lock:
            self._bad_until[host] = self._runtime.now() + PENALTY_S

    def answered(self, host: Any) -> None:
        with self._lock:
            self._bad_until.pop(host, None)

    def for_key(self, keyspace: str, key: str, avoid: Iterable[Any] = ()) -> Any | None:
        """The node to ask for a row of `key`: its first replica in ring order that is in good standing and not among
        `avoid`. So one lease's conditional writes meet at one coordinator, where they queue instead of fight."""
        return self._best(self._replicas_of(keyspace, key.encode()), set(avoid))

    def next_of(self, plan: Iterable[Any], tried: Sequence[Any]) -> Any | None:
        """The node to ask next: of a plan of the driver's, the first one in good standing that was not tried yet; else
        one that is merely not in good standing. None for an empty plan: the driver knows of none that is up."""
        with self._lock:
            now = self._runtime.now()
            bad = {host for host, until in self._bad_until.items() if now < until} if self._bad_until else ()
        if not bad and not tried:
            return next(iter(plan), None)
        return min(plan, key=lambda host: (host in tried, host in bad), default=None)

    def any(self) -> Any | None:
        """A node in good standing, in turns."""
        local = self.local()
        start = next(self._turn) % len(local) if local else 0
        return self._best(local[start:] + local[:start], set())

    def _replicas_of(self, keyspace: str, key: bytes) -> list[Any]:
        now = self._runtime.now()
        with self._lock:
            until, known = self._replicas.get((keyspace, key), (0.0, []))
        if now < until:
            return known
        replicas = [h for h in self._cluster.metadata.get_replicas(keyspace, key) if h.datacenter == self._local_dc]
        known = replicas or self.local()
        with self._lock:
            if len(self._replicas) > 10_000:
                self._replicas.clear()
            self._replicas[keyspace, key] = (now + KNOWN_S, known)
        return known

    def _best(self, candidates: list[Any], avoid: set[Any]) -> Any | None:
        now = self._runtime.now()
        with self._lock:
            bad = {host for host, until in self._bad_until.items() if now < until}
        return min(candidates, key=lambda host: (host in avoid, host in bad, host.is_up is False), default=None)
