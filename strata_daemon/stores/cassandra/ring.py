"""The connection in use: prepared statements, the bulk way for workers, and its end.

Bulk requests are plain and may be repeated; a repeat goes to another node. Lease requests have a session of their own
(see `leases`), since bulk traffic must not stand in their way (faults.md 45). Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cassandra import ReadFailure
from cassandra.cluster import EXEC_PROFILE_DEFAULT
from cassandra.concurrent import execute_concurrent
from cassandra.query import BatchStatement, BatchType

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.stores.cassandra.connect import LOOK
from strata_daemon.stores.cassandra.errors import in_words, is_for_good
from strata_daemon.stores.cassandra.hosts import Hosts
from strata_daemon.stores.cassandra.statements import LEVEL, SERIAL_LEVEL, Statement

TRIES = 3
# Bulk requests of this process in flight at once: more only queues in the nodes, before the leases' requests.
IN_FLIGHT = 128
PAGE_ROWS = 1000
Row = tuple[Any, ...]


class ReadRefused(StoreUnavailable):
    """The replicas failed a read: most likely it passes over more tombstones than they are allowed to step over."""


class Ring:
    """Owns the driver's cluster and both sessions."""

    def __init__(
        self, cluster: Any, lease_session: Any, bulk_session: Any, settings: CassandraSettings, runtime: Runtime
    ) -> None:
        self.settings = settings
        self.runtime = runtime
        self.cluster = cluster
        self.lease_session = lease_session
        self.hosts = Hosts(cluster, settings.local_dc, runtime)
        self._bulk = bulk_session
        self._bulk.default_fetch_size = PAGE_ROWS
        self._lock = threading.Lock()  # guards _prepared
        self._prepared: dict[Statement, Any] = {}

    def prepared(self, statement: Statement) -> Any:
        """Prepared once, then the same object: the driver keeps them only as long as we do. Raises StoreUnavailable."""
        with self._lock:
            known = self._prepared.get(statement)
        if known is not None:
            return known
        cql = statement.cql.format(strata=self.settings.keyspace, own=self.settings.own_keyspace)
        try:
            made = self._bulk.prepare(cql)
        except Exception as exc:
            raise StoreUnavailable(f"a statement on {statement.table} cannot be prepared: {in_words(exc)}") from exc
        made.consistency_level = LEVEL
        if statement.is_conditional:
            made.serial_consistency_level = SERIAL_LEVEL
        with self._lock:
            return self._prepared.setdefault(statement, made)

    def has_column(self, table: str, column: str) -> bool:
        """Whether Strata's table has that column: some came later and may be missing in an old keyspace."""
        keyspace = self.cluster.metadata.keyspaces.get(self.settings.keyspace)
        known = keyspace.tables.get(table) if keyspace is not None else None
        return known is not None and column in known.columns

    def bind(self, statement: Statement, values: Sequence[Any]) -> Any:
        return self.prepared(statement).bind(values)

    def batch(self, statements: Iterable[tuple[Statement, Sequence[Any]]]) -> Any:
        """One unlogged batch; all of its statements must be of one partition and one table."""
        made = BatchStatement(batch_type=BatchType.UNLOGGED, consistency_level=LEVEL)
        for statement, values in statements:
            made.add(self.prepared(statement), values)
        return made

    def read(self, statement: Statement, values: Sequence[Any] = (), *, is_patient: bool = True) -> list[Row]:
        """All rows, all pages. Raises StoreUnavailable."""
        return self.gather([self.bind(statement, values)], is_patient=is_patient)[0]

    def write(self, statement: Statement, values: Sequence[Any]) -> None:
        """Raises StoreUnavailable: then it may or may not have been written."""
        self.gather([self.bind(statement, values)])

    def gather(
        self, requests: Sequence[Any], *, in_flight: int = IN_FLIGHT, is_patient: bool = True
    ) -> list[list[Row]]:
        """Send all, a bounded number at once, each up to three times; the rows of each, in order.

        Not `is_patient`: once, with a time-out of 5 s. For a thread that must notice within seconds that
        its leases are lost.

        Only for what may be repeated. Raises StoreUnavailable with the first that failed three times, after all ended;
        ReadRefused when the replicas will not read that much.
        """
        return self.begin(requests, in_flight=in_flight, is_patient=is_patient).wait()

    def begin(self, requests: Sequence[Any], *, in_flight: int = IN_FLIGHT, is_patient: bool = True) -> Pending:
        """As `gather`, without waiting: the first round is on its way."""
        return Pending(self, requests, in_flight, is_patient=is_patient)

    def send_round(
        self, requests: Sequence[Any], in_flight: int, profile: object = EXEC_PROFILE_DEFAULT
    ) -> Iterator[tuple[bool, Any]]:
        """Send each once; what is returned gives (whether it is good, rows or error) in order, waiting for each."""
        try:
            sent: Iterator[tuple[bool, Any]] = execute_concurrent(
                self._bulk,
                [(request, ()) for request in requests],
                concurrency=in_flight,
                raise_on_first_error=False,
                results_generator=True,
                execution_profile=profile,
            )
        except Exception as exc:  # the session was closed under us, or the driver could not even begin
            sent = iter([(False, exc)] * len(requests))
        return sent

    def close(self, timeout_s: float) -> bool:
        """Shut the driver down in bounded time; it may wait for a node that is silent (faults.md 43)."""
        thread = self.runtime.spawn("ring-close", self.cluster.shutdown)
        return thread.join(timeout_s)


class Pending:
    """Requests under way. `wait` belongs to one thread, and is called once."""

    def __init__(self, ring: Ring, requests: Sequence[Any], in_flight: int, *, is_patient: bool = True) -> None:
        self._tries = TRIES if is_patient else 1
        self._profile = EXEC_PROFILE_DEFAULT if is_patient else LOOK
        self._ring = ring
        self._requests = requests
        self._in_flight = in_flight
        self._answers: list[list[Row]] = [[] for _ in requests]
        self._left: Sequence[int] = range(len(requests))
        self._sent = ring.send_round(requests, in_flight, self._profile)

    def wait(self) -> list[list[Row]]:
        """The rows of each request, in order. Raises as `Ring.gather` does."""
        for number in range(1, self._tries + 1):
            failures = self._take()
            if not failures:
                break
            refused = next((exc for exc in failures.values() if is_for_good(exc)), None)
            if refused is not None or number == self._tries:
                exc = refused or next(iter(failures.values()))
                raise (ReadRefused if isinstance(exc, ReadFailure) else StoreUnavailable)(in_words(exc)) from exc
            self._left = list(failures)
            again = [self._requests[i] for i in self._left]
            self._sent = self._ring.send_round(again, self._in_flight, self._profile)
        return self._answers

    def _take(self) -> dict[int, Exception]:
        """Take in what came of this round; what failed."""
        failures: dict[int, Exception] = {}
        for i, (is_good, result) in zip(self._left, self._sent, strict=True):
            if not is_good:
                failures[i] = result
                continue
            try:
                self._answers[i] = [] if result is None else list(result)
            except Exception as exc:  # a later page failed: the whole is read again
                failures[i] = exc
        return failures
