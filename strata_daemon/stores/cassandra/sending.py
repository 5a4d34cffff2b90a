"""One lease request to one node, without waiting. The bulk way is in `ring`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from strata_daemon.stores.cassandra.bulk import Row
from strata_daemon.stores.cassandra.connect import LEASE
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import Statement


def send_to(
    ring: Ring,
    statement: Statement,
    values: Sequence[Any],
    host: Any,
    on_rows: Callable[[Sequence[Row]], None],
    on_error: Callable[[BaseException], None],
) -> None:
    """One try on one node by the lease session; exactly one of both is called, on the driver's loop thread or now."""
    try:
        future = ring.lease_session.execute_async(ring.bind(statement, values), execution_profile=LEASE, host=host)
    except Exception as exc:  # the session ends under us: the driver's errors have no common base
        on_error(exc)
        return
    future.add_callbacks(lambda rows: on_rows(rows or ()), on_error)
