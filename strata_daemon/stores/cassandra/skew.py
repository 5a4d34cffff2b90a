"""How far the clocks of the ring's nodes are apart: a lease's end is judged by whichever node coordinates.

Measured by asking each node for its clock (cassandra-facts.md I.10): the best of five samples a node whose round trip
took less than 200 ms. A node that gives none keeps its last value. Thread `ring-skew`, once a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strata_daemon.base import log
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Event, Runtime, Thread
from strata_daemon.stores.cassandra.connect import LEASE
from strata_daemon.stores.cassandra.errors import in_words
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import READ_CLOCK

SAMPLES = 5
ROUND_TRIP_MAX_S = 0.2
PERIOD_S = 60.0
LEAST_S = 1.0  # what is allowed for in any case (design.md section 4)
FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Offset:
    """A node's clock less ours at the same instant, in seconds. `error_s`: half the round trip."""

    seconds: float
    error_s: float


def spread_s(offsets: Mapping[str, Offset]) -> float:
    """The distance between the slowest and the fastest clock."""
    values = [offset.seconds for offset in offsets.values()]
    return max(values) - min(values) if values else 0.0


def allowed_s(offsets: Mapping[str, Offset]) -> float:
    """What a lease must allow for: twice what was measured, a second at least. Whole milliseconds, so that noise
    does not count as a change."""
    return max(LEAST_S, round(FACTOR * spread_s(offsets), 3))


class SkewMeter:
    """`offsets` by node address. Written by one thread at a time: the opener's, then `ring-skew`."""

    def __init__(self, ring: Ring, on_change: Callable[[float], None]) -> None:
        self._ring = ring
        self._runtime: Runtime = ring.runtime
        self._on_change = on_change
        self._lock = threading.Lock()  # guards _offsets
        self._offsets: dict[str, Offset] = {}
        self._stopping: Event = self._runtime.event()
        self._thread: Thread | None = None
        self._log = log.logger("ring")

    @property
    def offsets(self) -> dict[str, Offset]:
        with self._lock:
            return dict(self._offsets)

    def start(self) -> None:
        self._thread = self._runtime.spawn("ring-skew", self._run)

    def close(self, timeout_s: float) -> bool:
        self._stopping.set()
        return self._thread is None or self._thread.join(timeout_s)

    def measure(self) -> None:
        """Ask every node of the local data centre. One that cannot be asked keeps its last value."""
        found = self.offsets
        present = {str(host.endpoint.address): host for host in self._ring.hosts.local()}
        for address, host in present.items():
            best = self._best(host)
            if best is not None:
                found[address] = best
        with self._lock:
            self._offsets = {address: offset for address, offset in found.items() if address in present}
        self._on_change(allowed_s(self.offsets))

    def _best(self, host: Any) -> Offset | None:
        samples: list[Offset] = []
        for _ in range(SAMPLES):
            if self._stopping.is_set():
                break
            sample = self._sample(host)
            if sample is None:
                break
            if sample.error_s * 2 < ROUND_TRIP_MAX_S:
                samples.append(sample)
        return min(samples, key=lambda sample: sample.error_s, default=None)

    def _sample(self, host: Any) -> Offset | None:
        """One question; None when the node does not answer."""
        try:
            statement = self._ring.bind(READ_CLOCK, ())
            before = self._runtime.now()
            row = self._ring.lease_session.execute(statement, host=host, execution_profile=LEASE, timeout=1.0).one()
            after = self._runtime.now()
        except StoreUnavailable:
            return None
        except Exception as exc:  # any of the driver's: there is no common base
            self._log.debug("node clock not read", extra={"host": str(host.endpoint), "error": in_words(exc)})
            return None
        return Offset(row[0] / 1000 - (before + after) / 2, (after - before) / 2)

    def _run(self) -> None:
        while not self._stopping.wait(PERIOD_S):
            self.measure()
