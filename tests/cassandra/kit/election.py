"""Candidates: the product's own timer, session and lease store in this process, each with connections of its own.

A candidate has everything of a daemon that makes it hold a lease and nothing else, so that a test can say when.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from strata_daemon.base.log import logger
from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Latch
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.leader.handle import TermHandle
from strata_daemon.leader.membership import Membership
from strata_daemon.leader.session import Locker
from strata_daemon.leader.term import Phase
from strata_daemon.leader.timer import LeaseTimer
from strata_daemon.leader.timing import Timing
from strata_daemon.stores.cassandra.connect import connect
from strata_daemon.stores.cassandra.leases import CassandraLeaseStore
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.skew import LEAST_S
from tests.cassandra.kit.keyspaces import Keyspaces

# The shortest lease that a ring lets through: 10 >= renew 2 + 3 tries x 1.43 + rounding 1 + skew 1 + stop budget 1.
TTL_S, RENEW_S, STOP_BUDGET_S = 10, 2.0, 1.0
POLL_S = 1.0
SHUTDOWN_WAIT_S = 5.0
WORKER = "gc"
CLOSE_S = 3.0


class QuietRuntime(RealRuntime):
    """Real time and threads. What would end the process does not end that of the tests: it is kept to be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.crashes: list[tuple[str, BaseException]] = []
        self.on_crash = lambda thread, exc: self.crashes.append((thread, exc))

    def last_resort(self, at: float | None) -> None:
        """One timer a process, and this one has many daemons."""

    def exit(self, code: int) -> None:
        self.crashes.append(("exit", SystemExit(code)))


class Candidate:
    """One node without a worker. `hosts` (default: the nodes themselves) as in STRATA_CASSANDRA_HOSTS."""

    def __init__(self, keyspaces: Keyspaces, name: str, hosts: str, timing: Timing) -> None:
        self.name = name
        self.runtime = QuietRuntime()
        settings = keyspaces.settings(hosts)
        self.ring = Ring(*connect(settings), settings, self.runtime)
        self.store = CassandraLeaseStore(self.ring, LEAST_S)
        self.metrics = Metrics()
        self.timer = LeaseTimer(
            self.runtime,
            self.store,
            timing,
            poll_s=POLL_S,
            shutdown_wait_s=SHUTDOWN_WAIT_S,
            node_id=lambda: name,
            metrics=self.metrics,
            log=logger("leader"),
        )
        self.locker = Locker(
            self.runtime,
            self.timer,
            lambda: Membership(name, {}, self.runtime.now()),
            poll_s=POLL_S,
            shutdown_wait_s=SHUTDOWN_WAIT_S,
        )
        self.stopping = Latch(self.runtime.event())
        self.timer.start()

    def acquire(self, lease: str, within_s: float) -> TermHandle:
        """A term that has begun."""
        began = self.runtime.now()
        handle = self.locker.session(lease, WORKER).acquire(self.stopping, within_s)
        assert handle is not None, f"{self.name} got no {lease} within {within_s:g} s"
        assert self.runtime.now() - began <= within_s, f"only after {self.runtime.now() - began:.2f} s"
        return handle

    def release(self, handle: TermHandle) -> bool:
        """Whether it is settled."""
        return self.locker.session(handle.lease, WORKER).release(handle)

    def is_held(self, handle: TermHandle) -> bool:
        view = handle.view()
        return view.phase is Phase.HELD and (view.valid_until or 0.0) > self.runtime.now()

    def wait_renewed(self, handle: TermHandle, after: float, within_s: float) -> float:
        """Wait for a renewal whose first send came after an instant; when that was."""
        ends_at = self.runtime.now() + within_s
        while (view := handle.view()).renewed_at is None or view.renewed_at <= after:
            assert view.phase is Phase.HELD, f"the term has ended: {view.reason}"
            assert self.runtime.now() < ends_at, f"no renewal within {within_s:g} s"
            handle.wait_change(view, 0.2, self.stopping)
        return view.renewed_at

    def unknown(self, statement: str) -> float:
        """How many tries of a statement stayed unknown."""
        return float(self.metrics.outcome_unknown.labels(statement)._value.get())

    def orphans(self) -> float:
        """How many rows of its own late attempts it deleted."""
        return float(self.metrics.orphans._value.get())

    def close(self) -> None:
        """End at once: what is held is left to its TTL."""
        self.stopping.set()
        for handle in self.timer.handles():
            self.timer.leave(handle, 0.5)
        self.timer.request_stop()
        assert self.timer.join(CLOSE_S), "the timer does not end"
        self.store.close(CLOSE_S)
        self.ring.close(CLOSE_S)
        assert not self.runtime.crashes, self.runtime.crashes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.close()


class Elections:
    """Makes the candidates of one test, and ends them."""

    def __init__(self, keyspaces: Keyspaces) -> None:
        self.keyspaces = keyspaces
        self._made: list[Candidate] = []

    def candidate(
        self,
        name: str,
        hosts: str = "",
        *,
        ttl_s: int = TTL_S,
        renew_s: float = RENEW_S,
        stop_budget_s: float = STOP_BUDGET_S,
    ) -> Candidate:
        made = Candidate(self.keyspaces, name, hosts, Timing(ttl_s, renew_s, stop_budget_s))
        self._made.append(made)
        return made

    def close(self) -> None:
        for candidate in self._made:
            candidate.close()
