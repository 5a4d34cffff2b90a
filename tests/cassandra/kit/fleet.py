"""Whole daemons in this process, each with connections of its own, under one witness that reads the truth of a ring.

The witness is that of the simulation; its truth is `worker_locks`, read through Paxos past any proxy. While the ring
cannot tell (no majority), only overlaps inside this process are judged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from strata_daemon.daemon import Daemon
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.leader.store import LeaseRow
from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.ports.stores import Stores
from strata_daemon.settings import load
from strata_daemon.stores.cassandra.connect import connect
from strata_daemon.stores.cassandra.gc_queue import CassandraGCQueue
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.memory.leases import MemoryLeases
from strata_daemon.stores.opening import open_ring
from strata_daemon.workers import registry
from tests.cassandra.kit.election import QuietRuntime
from tests.cassandra.kit.keyspaces import Keyspaces
from tests.process.kit import eventually
from tests.sim.kit.witness import Witness, WitnessedChunks

REGION = "strata-local"
TRUTH_S = 1.0
STOP_S = 20.0
WORK_S = 40.0  # no promise is tried by it: a machine may be busy
FAST = {
    "STRATA_LEASE_TTL": "10s",
    "STRATA_LEASE_RENEW": "2s",
    "STRATA_LEASE_STOP_BUDGET": "1s",
    "STRATA_LEASE_POLL": "1s",
    "STRATA_SHUTDOWN_WAIT": "10s",
    # An entry must be there before the reads have passed its instant: the grace is what that may take.
    "STRATA_GC_GRACE": "2s",
    # A look reads a row of 1,024 partitions: more often than this it would load the nodes, not try the daemon.
    "STRATA_GC_INTERVAL": "2s",
}


class RingWitness(Witness):
    """Of one ring. Its methods are called from the threads of passes: `_lock` guards the notes."""

    def __init__(self, keyspaces: Keyspaces, runtime: QuietRuntime) -> None:
        super().__init__(MemoryLeases(runtime))
        self._keyspaces = keyspaces
        self._lock = threading.RLock()
        self.untold = 0
        self._is_told = True

    def row(self, lease: str) -> LeaseRow | None:
        strata = self._keyspaces.strata
        try:
            rows = self._keyspaces.client.serial(
                f"SELECT holder, TTL(holder) FROM {strata}.worker_locks WHERE name = %s", (lease,), timeout_s=TRUTH_S
            )
        except Exception:  # the driver's errors have no common base; no majority: nothing is known
            self.untold += 1
            self._is_told = False
            return None
        self._is_told = True
        return LeaseRow(rows[0][0], rows[0][1]) if rows else None

    def enter(self, at: float, node: str, lease: str) -> None:
        with self._lock:
            self._judged(lambda: super(RingWitness, self).enter(at, node, lease), lease, "works under")

    def leave(self, at: float, node: str, lease: str) -> None:
        with self._lock:
            self._judged(lambda: super(RingWitness, self).leave(at, node, lease), lease, "was still inside")

    def _judged(self, note: Callable[[], None], lease: str, about_the_row: str) -> None:
        before = len(self.faults)
        note()
        if not self._is_told:
            self.faults[before:] = [fault for fault in self.faults[before:] if about_the_row not in fault]


class Node:
    """One daemon with one gc worker. `settings` are STRATA_* names."""

    def __init__(
        self, fleet: Fleet, name: str, hosts: str, settings: dict[str, str], runtime: QuietRuntime | None
    ) -> None:
        self.name = name
        self.fleet = fleet
        self.runtime = runtime or QuietRuntime()
        keyspaces = fleet.keyspaces
        environ = {
            **FAST,
            **{f"STRATA_{key}": value for key, value in keyspaces.environment(hosts).items()},
            "STRATA_WORKERS": "gc",
            "STRATA_DAEMON_LISTEN": "off",
            "STRATA_NODE_ID": name,
            **settings,
        }
        self.settings = load({}, environ=environ).settings
        self.chunks = WitnessedChunks(self.runtime, name, fleet.witness, self.settings.worker("gc").shards)
        self.chunks.effect_s = 0.02
        self.stores: Stores = replace(
            open_ring(self.settings.cassandra, "memory", self.settings.state_dir, REGION, self.runtime),
            data=self.chunks,
        )
        self.codes: list[int] = []
        self._stopping: Any = None
        self.daemon = Daemon(self.settings, registry.resolve(["gc"]), self.stores, self.runtime, self.request_stop)
        self.daemon.start()

    def request_stop(self) -> None:
        """SIGTERM."""
        if self._stopping is None:
            self._stopping = self.runtime.spawn("stop", lambda: self.codes.append(self.daemon.stop()))

    def stop(self, within_s: float = STOP_S) -> int:
        """Stop and close; the exit code."""
        self.request_stop()
        assert self._stopping.join(within_s), f"{self.name} does not stop"
        self.stores.close()
        assert not self.runtime.crashes, self.runtime.crashes
        return self.codes[0]

    def terms(self, reason: str | None = None) -> float:
        """How many terms of gc began; with `reason`, how many ended for it."""
        name, labels = "strata_daemon_terms_total", {"worker": "gc"}
        if reason is not None:
            name, labels = "strata_daemon_terms_ended_total", {"worker": "gc", "reason": reason}
        return self.daemon._metrics.registry.get_sample_value(name, labels) or 0.0

    def held(self) -> set[str]:
        """The leases that this node works under, by its own view."""
        return {term.lease for term in self.daemon.snapshot.look().held()}


class Fleet:
    """The daemons of one test."""

    def __init__(self, keyspaces: Keyspaces) -> None:
        self.keyspaces = keyspaces
        self.witness = RingWitness(keyspaces, QuietRuntime())
        self.nodes: dict[str, Node] = {}
        settings = keyspaces.settings()
        self._direct = Ring(*connect(settings), settings, QuietRuntime())
        self._queue = CassandraGCQueue(self._direct)

    def start(self, name: str, hosts: str = "", *, runtime: QuietRuntime | None = None, **settings: str) -> Node:
        """Keywords are STRATA_* names without their prefix."""
        node = Node(self, name, hosts, {f"STRATA_{key}": value for key, value in settings.items()}, runtime)
        self.nodes[name] = node
        return node

    def leader(self, lease: str = "gc-leader-0") -> str | None:
        """By the truth."""
        holder = self.keyspaces.holder(lease)
        return holder.split("/", 1)[0] if holder else None

    def wait_leader(self, within_s: float, lease: str = "gc-leader-0") -> str:
        return eventually(lambda: self.leader(lease), within_s, every_s=0.05) or ""

    def feed(self, count: int, prefix: str) -> list[GCEntry]:
        """Queue chunks, spread over the shards, past any proxy, as of now. Raises StoreUnavailable."""
        now_ms = int(time.time() * 1000)
        oids = [f"{prefix}-{i}" for i in range(count)]
        entries = [GCEntry(REGION, gc_shard(oid), now_ms, oid, "default", "", "") for oid in oids]
        self._queue.enqueue(entries)
        return entries

    def work(self, count: int, prefix: str) -> None:
        """Feed, and wait until all of it is deleted. The first pass of a term goes over 1,024 partitions."""
        fed = {entry.oid for entry in self.feed(count, prefix)}
        eventually(lambda: fed <= self.deleted(), WORK_S, every_s=0.1)

    def deleted(self) -> set[str]:
        return {oid for node in self.nodes.values() for oid in node.chunks.deleted}

    def check(self) -> None:
        assert not self.witness.faults, "\n".join(self.witness.faults[:10])

    def close(self) -> None:
        for node in self.nodes.values():
            if not node.codes:
                node.stop()
        self._direct.close(3.0)
