"""The thread `heartbeat`: writes this node's row, and reads the others' for the fair share.

The row is written at once on a leader event (events that pile up become one write), else each 5 s; the chip always
converges to the truth, since every write carries the whole state. A failed write is repeated after a second. It does
not make a lease: a row may be up to 30 s old when its node has died.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from strata_daemon import __version__
from strata_daemon.base import log
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Latch, Runtime, Thread, WakingQueue
from strata_daemon.leader.events import LeaderEvent
from strata_daemon.leader.membership import Membership
from strata_daemon.ports.nodes import NodeRow, Nodes

WRITE_S = 5.0  # consoles call a row of more than 10 s degraded (strata-keyspace.md 8.2)
TTL_S = 30
YOUNG_S = 15.0  # a row counts for the fair share while this much of its TTL remains
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class _DropWorkers:
    """The row names these workers no more (None: no worker at all), before the first lease is released."""

    workers: frozenset[str] | None
    written: Latch


class HeartbeatPublisher:
    """`emit` and `drop_workers` may be called from any thread; the rest of the state is the heartbeat thread's."""

    def __init__(
        self,
        runtime: Runtime,
        nodes: Nodes,
        *,
        node_id: str,
        address: str,
        workers: tuple[str, ...],
        metrics: Metrics,
    ) -> None:
        self._runtime = runtime
        self._nodes = nodes
        self._base_id = node_id
        self._address = address
        self._workers = frozenset(workers)
        self._metrics = metrics
        self._log = log.logger("heartbeat")
        started = runtime.wall()
        self.started_at = started.replace(microsecond=started.microsecond // 1000 * 1000)
        # A queue.Queue underneath, unbounded: a cycle puts at most two events, and the publisher drains all at once.
        # Bounded, it would have to block a worker or drop an event, and a dropped one leaves a wrong chip (defect d).
        self._queue: WakingQueue[LeaderEvent | _DropWorkers] = runtime.queue()
        self._stop = Latch(runtime.event())
        self._stop.subscribe(self._queue.wake)
        self._leads: set[str] = set()
        self._write_at = self._read_at = runtime.now()
        self._failing: set[str] = set()
        self._awaiting: list[Latch] = []
        self._has_written = False
        self._lock = threading.Lock()  # guards _node_id, _members and _beat_at
        self._node_id = node_id
        self._members = Membership(node_id, {}, runtime.now())
        self._beat_at = runtime.now()
        self._thread: Thread | None = None

    # -- for other threads

    def start(self) -> None:
        self._thread = self._runtime.spawn("heartbeat", self._run)

    @property
    def thread(self) -> Thread | None:
        return self._thread

    def emit(self, worker: str, acquired: bool) -> None:
        """A leader event; never blocks."""
        self._metrics.leader_events.labels(worker, "acquired" if acquired else "released").inc()
        self._queue.put(LeaderEvent(worker, acquired))

    def drop_workers(self, wait_s: float) -> bool:
        """Take the workers out of the row (design.md, fair share); wait until that is written, at most `wait_s`."""
        return self._drop(None, wait_s)

    def drop_worker(self, worker: str, wait_s: float) -> bool:
        """As `drop_workers`, for one worker: it is paused, and must not count in the fair share."""
        return self._drop(frozenset({worker}), wait_s)

    def _drop(self, workers: frozenset[str] | None, wait_s: float) -> bool:
        written = Latch(self._runtime.event())
        self._queue.put(_DropWorkers(workers, written))
        return written.wait(wait_s)

    def request_stop(self) -> None:
        """Remove the row (defect S3) and end the thread."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        return self._thread is None or self._thread.join(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Remove the row and end the thread, in at most `timeout_s` seconds; say whether it has ended."""
        self.request_stop()
        return self.join(timeout_s)

    @property
    def beat_at(self) -> float:
        """The instant of the last turn. A turn may take as long as two calls to the store, and they may be slow."""
        with self._lock:
            return self._beat_at

    def node_id(self) -> str:
        with self._lock:
            return self._node_id

    def members(self) -> Membership:
        """The last good look at the node rows; one that failed changes nothing, however old it grows.

        The fair share needs a set of nodes that does not flicker. Were the set emptied by a failed read, each node
        would take itself for the only one and reach for all, in the very minute when the store is in trouble. A set
        that stands still harms nobody: a node that died is counted for too long, yet its leases are free to anybody
        and merely taken later; a node that came gets its share once it can be seen. Leases, not rows, exclude.
        """
        with self._lock:
            return self._members

    # -- the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            self.turn()
            wait_s = min(self._write_at, self._read_at) - self._runtime.now()
            self._queue.wake.wait(max(0.0, wait_s))
            self._queue.wake.clear()
        self._remove()

    def turn(self) -> None:
        """Take in what came; read and write what is due."""
        now = self._runtime.now()
        with self._lock:
            self._beat_at = now
        for item in self._queue.drain():
            self._write_at = now
            if isinstance(item, _DropWorkers):
                self._workers = frozenset() if item.workers is None else self._workers - item.workers
                self._awaiting.append(item.written)
            elif item.acquired:
                self._leads.add(item.worker)
            else:
                self._leads.discard(item.worker)
        if now >= self._read_at:
            self._read(now)
        if now >= self._write_at:
            self._write(now)

    def _read(self, now: float) -> None:
        self._read_at = now + WRITE_S
        try:
            rows = self._nodes.read()
        except StoreUnavailable as exc:
            self._failed("read", exc)
            self._read_at = now + RETRY_S
            return
        self._worked("read")
        taken = {row.node_id: row for row in rows}
        own = taken.get(self.node_id())
        if own is None:
            self._note_absence(now)
        if self._is_clash(own):
            self._rename(taken, now)
        remaining = {row.node_id: TTL_S if row.remaining_s is None else row.remaining_s for row in rows}
        young = {row.node_id: row.workers for row in rows if remaining[row.node_id] >= TTL_S - YOUNG_S}
        written_at = {node: now - (TTL_S - left) for node, left in remaining.items()}
        with self._lock:
            self._members = Membership(self._node_id, young, now, written_at)

    def _note_absence(self, now: float) -> None:
        """Somebody deleted the row, or this process stood still for a TTL: it is made anew, and counted (faults.md
        26). That it expired because writes fail has been told already."""
        if self._has_written and "write" not in self._failing:
            self._metrics.heartbeat_rows_gone.inc()
            self._log.warning("node row was gone", extra={"node": self.node_id()})
            self._write_at = now

    def _is_clash(self, row: NodeRow | None) -> bool:
        """Whether the row of this node's id is another live process's, started earlier (faults.md 7).

        Only a row that replaced one of ours tells of a living process: what a crashed predecessor left behind before
        our first write does not. The later starter moves away; the earlier one writes its row again at once. Of two
        that started in one millisecond the higher address moves.
        """
        if row is None or not self._has_written:
            return False
        theirs, ours = (row.started_at, row.address), (self.started_at, self._address)
        if theirs == ours:
            return False
        self._metrics.node_id_clashes.inc()
        fields = {"node": row.node_id, "address": self._address, "other_address": row.address}
        self._log.error("node id is used twice", extra={**fields, "other_started_at": row.started_at.isoformat()})
        self._write_at = self._runtime.now()
        return theirs < ours

    def _rename(self, taken: dict[str, NodeRow], now: float) -> None:
        number = 2
        while f"{self._base_id}-{number}" in taken:
            number += 1
        with self._lock:
            self._node_id = f"{self._base_id}-{number}"
        self._has_written = False
        self._write_at = now
        self._log.error("node id changed", extra={"node": self._node_id, "was": self._base_id})

    def _write(self, now: float) -> None:
        wall = self._runtime.wall()
        row = NodeRow(
            node_id=self.node_id(),
            address=self._address,
            version=__version__,
            started_at=self.started_at,
            workers=self._workers,
            leader_for=frozenset(self._leads),
            last_heartbeat=wall,
        )
        try:
            self._nodes.write(row, TTL_S)
        except StoreUnavailable as exc:
            self._failed("write", exc)
            self._write_at = now + RETRY_S
            return
        self._has_written = True
        self._write_at = now + WRITE_S
        self._metrics.heartbeat_last_write.set(wall.timestamp())
        self._worked("write")
        waiting, self._awaiting = self._awaiting, []
        for written in waiting:
            written.set()

    def _failed(self, what: str, exc: StoreUnavailable) -> None:
        self._metrics.heartbeat_failures.inc()
        if what not in self._failing:
            self._failing.add(what)
            fields = {"node": self.node_id(), "statement": what, "error": str(exc)}
            self._log.error("heartbeat failed", extra=fields)

    def _worked(self, what: str) -> None:
        if what in self._failing:
            self._failing.remove(what)
            self._log.info("heartbeat works again", extra={"node": self.node_id(), "statement": what})

    def _remove(self) -> None:
        try:
            self._nodes.remove(self.node_id(), self.started_at)
        except StoreUnavailable as exc:
            self._log.warning("node row left to its TTL", extra={"node": self.node_id(), "error": str(exc)})
