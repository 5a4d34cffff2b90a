"""Whole daemons in virtual time: each a process of the world, all on one shared truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from strata_daemon.base.runtime.virtual import VirtualRuntime, VirtualWorld
from strata_daemon.daemon import Daemon
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.ports.stores import Stores
from strata_daemon.settings import load
from strata_daemon.stores.memory import open_memory
from strata_daemon.stores.memory.leases import MemoryLeases
from strata_daemon.workers import registry
from strata_daemon.workers.contract import Worker
from tests.sim.kit.scripted_store import ScriptedLeaseStore
from tests.sim.kit.witness import Witness, WitnessedChunks

REGION = "strata-local"


class Node:
    """One daemon. `code` is its exit code once it stopped in the ordinary way."""

    def __init__(self, fleet: Fleet, name: str, settings: dict[str, str], workers: Sequence[Worker] | None) -> None:
        self.name = name
        self.fleet = fleet
        self.runtime: VirtualRuntime = fleet.world.process(name)
        environ = {
            "STRATA_WORKERS": "gc",
            "STRATA_META_BACKEND": "memory",
            "STRATA_DATA_BACKEND": "memory",
            "STRATA_DAEMON_LISTEN": "off",
            "STRATA_NODE_ID": name,
            "STRATA_GC_GRACE": "1ms",
            "STRATA_GC_INTERVAL": "5s",
            "STRATA_GC_SHARDS": str(fleet.slots),
            **settings,
        }
        loaded = load({}, environ=environ).settings
        self.leases = ScriptedLeaseStore(fleet.truth, self.runtime)
        self.chunks = WitnessedChunks(self.runtime, name, fleet.witness, fleet.slots)
        stores = Stores(
            meta=fleet.meta,
            data=self.chunks,
            lease_store=self.leases,
            lease_reader=self.leases,
            runtime=self.runtime,
            close=lambda: None,
            probes={},
        )
        chosen = registry.resolve(["gc"]) if workers is None else workers
        self.codes: list[int] = []
        self._is_stopping = False
        self.daemon = Daemon(loaded, chosen, stores, self.runtime, self.stop)
        self.runtime.on_crash = self.daemon.crashed
        self.daemon.start()

    def stop(self) -> None:
        """SIGTERM."""
        if not self._is_stopping:
            self._is_stopping = True
            self.runtime.spawn("stop", lambda: self.codes.append(self.daemon.stop()))

    @property
    def code(self) -> int | None:
        return self.codes[0] if self.codes else self.runtime.exit_code

    def is_inside(self) -> bool:
        return any(self.name in nodes for nodes in self.fleet.witness.inside.values())

    def freeze(self) -> None:
        self.fleet.witness.still.add(self.name)
        self.runtime.freeze()

    def thaw(self) -> None:
        self.runtime.thaw()

    def kill(self) -> None:
        self.fleet.witness.still.add(self.name)
        self.runtime.kill()

    def held(self) -> set[str]:
        """Leases whose row names this node: the truth, not what the node thinks."""
        rows = self.fleet.truth.list_leases()
        return {row.lease for row in rows if row.holder and row.holder.split("/", 1)[0] == self.name}

    def chip(self) -> frozenset[str] | None:
        row = next((row for row in self.fleet.meta.nodes.read() if row.node_id == self.name), None)
        return None if row is None else row.leader_for


class Fleet:
    """The world, the truth, the witness, and the nodes."""

    def __init__(self, seed: int, slots: int = 1) -> None:
        self.world = VirtualWorld(seed)
        self.slots = slots
        self._store = self.world.process("store")
        self.truth = MemoryLeases(self._store)
        self.meta: Any = open_memory(REGION, self._store).meta
        self.witness = Witness(self.truth)
        self.nodes: dict[str, Node] = {}

    def start(self, name: str, *, workers: Sequence[Worker] | None = None, **settings: str) -> Node:
        node = self.nodes[name] = Node(self, name, settings, workers)
        return node

    def feed(self, count: int, prefix: str = "chunk") -> None:
        """Queue chunks that are past their grace, spread over the shards."""
        now_ms = int(self._store.wall().timestamp() * 1000) - 60_000
        oids = [f"{prefix}-{i}" for i in range(count)]
        self.meta.gc_queue.enqueue([GCEntry(REGION, gc_shard(oid), now_ms, oid, "default", "", "") for oid in oids])

    def run(self, seconds: float) -> None:
        self.world.advance(seconds)

    def run_until(self, claim: Any, within_s: float) -> float:
        return self.world.run_until(claim, within_s)

    def leader(self, lease: str = "gc-leader-0") -> str | None:
        row = self.witness.row(lease)
        return row.holder.split("/", 1)[0] if row is not None and row.holder else None

    def check(self) -> None:
        """No fault was seen."""
        assert not self.witness.faults, "\n".join(self.witness.faults[:10])


@contextmanager
def fleet(seed: int, slots: int = 1) -> Iterator[Fleet]:
    """A fleet whose threads are all ended, and whose witness saw no fault, when the block is left."""
    made = Fleet(seed, slots)
    try:
        yield made
        made.check()
    finally:
        made.world.close()
