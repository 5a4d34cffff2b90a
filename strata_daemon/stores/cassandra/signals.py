"""The `signals` rows: one a node, in one partition, so that a look at all of them is one small read.

A node's row is written as a whole by its own process, at most one write on its way at a time; what piles up meanwhile
goes with the next. A row that is lost costs its readers one poll period, no more. `add`, `flush` and `read` are the
timer thread's; call-backs come on the driver's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from strata_daemon.base.runtime import Event
from strata_daemon.leader.store import Deliver, ReadSignals, Released, Signal, SignalRows
from strata_daemon.stores.cassandra.bulk import Row
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.sending import send_to
from strata_daemon.stores.cassandra.statements import READ_RELEASES, READ_SIGNALS, WRITE_SIGNAL

SCOPE = "leases"
KEPT_RELEASES = 2048  # more than one stop of 1,024 shards leaves
KEPT_S = 600.0  # nobody waits for a release that long


class Signals:
    """What this process released, and the reading of what the others did."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._lock = threading.Lock()  # guards what follows
        self._releases: dict[str, deque[tuple[float, Released]]] = {}
        self._seqs: dict[str, int] = {}
        self._unwritten: set[str] = set()
        self._on_its_way: set[str] = set()
        self._idle: Event = ring.runtime.event()
        self._idle.set()

    def add(self, signal: Signal) -> None:
        """Numbers start above what was ever seen of the node, and above any earlier process by the clock."""
        now = self._ring.runtime.now()
        with self._lock:
            base = int(self._ring.runtime.wall().timestamp() * 1000) if signal.node not in self._releases else 0
            seq = max(self._seqs.get(signal.node, 0), base) + 1
            self._seqs[signal.node] = seq
            kept = self._releases.setdefault(signal.node, deque(maxlen=KEPT_RELEASES))
            while kept and kept[0][0] < now - KEPT_S:
                kept.popleft()
            kept.append((now, Released(seq, signal.lease, signal.surplus)))
            self._unwritten.add(signal.node)
            self._idle.clear()

    def flush(self) -> None:
        """Send what is not written yet, unless a write of that node is on its way."""
        with self._lock:
            ready = sorted(self._unwritten - self._on_its_way)
            rows = [(node, self._seqs[node], self._encoded_locked(node)) for node in ready]
            self._unwritten.difference_update(ready)
            self._on_its_way.update(ready)
        for node, seq, releases in rows:
            host = self._ring.hosts.for_key(self._ring.settings.own_keyspace, SCOPE)
            if host is None:
                self._ended(node, is_written=False)
                continue

            def on_rows(_rows: Sequence[Row], node: str = node) -> None:
                self._ended(node, is_written=True)

            def on_error(_exc: BaseException, node: str = node, host: Any = host) -> None:
                self._ring.hosts.failed(host)
                self._ended(node, is_written=False)

            send_to(self._ring, WRITE_SIGNAL, (SCOPE, node, seq, releases), host, on_rows, on_error)

    def wait(self, timeout_s: float) -> bool:
        """Wait until nothing is on its way; say whether all is written."""
        return self._idle.wait(timeout_s)

    def read(self, request: ReadSignals, deliver: Deliver) -> None:
        """First only the numbers; the releases of those nodes that have new ones."""
        host = self._ring.hosts.for_key(self._ring.settings.own_keyspace, SCOPE)
        if host is None:
            deliver([SignalRows(request, None)])
            return

        def on_error(_exc: BaseException) -> None:
            self._ring.hosts.failed(host)
            deliver([SignalRows(request, None)])

        def on_numbers(rows: Sequence[Row]) -> None:
            with self._lock:
                for node, seq in rows:
                    self._seqs[node] = max(self._seqs.get(node, 0), seq or 0)
            changed = [node for node, seq in rows if (seq or 0) > request.seen.get(node, -1)]
            if not changed:
                deliver([SignalRows(request, {})])
                return
            send_to(self._ring, READ_RELEASES, (SCOPE, changed), host, on_releases, on_error)

        def on_releases(rows: Sequence[Row]) -> None:
            found = {node: _news(_decoded(text), request.seen.get(node, 0)) for node, _, text in rows}
            deliver([SignalRows(request, found)])

        send_to(self._ring, READ_SIGNALS, (SCOPE,), host, on_numbers, on_error)

    def _encoded_locked(self, node: str) -> str:
        kept = self._releases[node]
        return msgspec.json.encode([(each.seq, each.lease, each.surplus) for _, each in kept]).decode()

    def _ended(self, node: str, *, is_written: bool) -> None:
        with self._lock:
            self._on_its_way.discard(node)
            if not is_written:
                self._unwritten.add(node)
            is_more = is_written and node in self._unwritten
            if not self._unwritten and not self._on_its_way:
                self._idle.set()
        if is_more:
            self.flush()


def _decoded(text: str | None) -> list[Released]:
    """A row that somebody else spoilt tells nothing; its node's leases are seen at the next poll."""
    try:
        return [Released(*each) for each in msgspec.json.decode(text or "[]", type=list[tuple[int, str, bool]])]
    except msgspec.MsgspecError:
        return []


def _news(releases: Sequence[Released], seen: int) -> list[Released]:
    return [each for each in releases if each.seq > seen]
