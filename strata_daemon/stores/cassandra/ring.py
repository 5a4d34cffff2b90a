"""The connection in use: prepared statements, the bulk way for workers, and its end.

Bulk requests are plain and may be repeated (see `bulk`). Lease requests have a session of their own
(see `leases`), since bulk traffic must not stand in their way (faults.md 45). Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from cassandra.query import BatchStatement, BatchType

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.stores.cassandra.budget import MOST, Budget
from strata_daemon.stores.cassandra.bulk import Pending, Row
from strata_daemon.stores.cassandra.errors import in_words
from strata_daemon.stores.cassandra.hosts import Hosts
from strata_daemon.stores.cassandra.statements import LEVEL, SERIAL_LEVEL, Statement

PAGE_ROWS = 1000


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
        self.budget = Budget()
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

    def read(self, statement: Statement, values: Sequence[Any] = ()) -> list[Row]:
        """All rows, all pages. Raises StoreUnavailable."""
        return self.gather([self.bind(statement, values)])[0]

    def write(self, statement: Statement, values: Sequence[Any]) -> None:
        """Raises StoreUnavailable: then it may or may not have been written."""
        self.gather([self.bind(statement, values)])

    def gather(self, requests: Sequence[Any], *, in_flight: int = MOST) -> list[list[Row]]:
        """Send all, a bounded number at once, each up to three times within 10 s; the rows of each, in order. A node
        that does not answer within a second does not hold them up: another one is asked as well.

        Only for what may be repeated. Raises StoreUnavailable with the first that failed three times, after all ended;
        ReadRefused when the replicas will not read that much.
        """
        return self.begin(requests, in_flight=in_flight).wait()

    def begin(self, requests: Sequence[Any], *, in_flight: int = MOST) -> Pending:
        """As `gather`, without waiting: the first of them are on their way."""
        return Pending(self._bulk, self.hosts, self.runtime, self.budget, requests, in_flight)

    def close(self, timeout_s: float) -> bool:
        """Shut the driver down in bounded time; it may wait for a node that is silent (faults.md 43)."""
        thread = self.runtime.spawn("ring-close", self.cluster.shutdown)
        return thread.join(timeout_s)
