"""The lease under which one process at a time changes a schema: a row of `worker_locks`, taken by plain blocking calls.

It serves a few statements at a start or by hand, so it is kept by a renewal before each of them and not by the timer
thread. The rules of an unknown outcome are those of every lease (design.md section 4): the same statement is repeated,
on another node, and a refusal that names our own holder means applied. Any thread, one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.stores.cassandra.bulk import Row
from strata_daemon.stores.cassandra.connect import LEASE
from strata_daemon.stores.cassandra.errors import in_words, is_for_good
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.statements import INSERT_LEASE, RELEASE_LEASE, RENEW_LEASE, Statement

NAME = "strata-daemon-schema"
TTL_S = 60  # one statement with its wait for agreement takes 40 s at most (connect.py)
TRIES = 3


class SchemaLease:
    """One attempt: a holder of its own, never used again."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._holder = f"schema/{os.getpid()}/{uuid4()}"
        self._is_sent = False

    def try_take(self) -> str | None:
        """None when it is ours now, else who holds it. Raises StoreUnavailable, PreflightError."""
        self._is_sent = True
        row = self._decide(INSERT_LEASE, (NAME, self._holder, TTL_S))
        if row[0] or row[-1] == self._holder:
            return None
        return str(row[-1] or "a row without a holder")

    def keep(self) -> None:
        """Make it last for one more statement. Raises StoreUnavailable when it is not ours any more."""
        row = self._decide(RENEW_LEASE, (TTL_S, self._holder, NAME, self._holder))
        if not row[0]:
            raise StoreUnavailable(f"the lease {NAME} was lost while the schema was made")

    def release(self) -> None:
        """Whether or not it was taken: an insert of ours may still arrive. What fails is left to the TTL."""
        if self._is_sent:
            with suppress(StoreUnavailable, PreflightError):
                self._decide(RELEASE_LEASE, (NAME, self._holder))

    def _decide(self, statement: Statement, values: Sequence[Any]) -> Row:
        """Send until it was applied or refused."""
        asked: list[Any] = []
        unknown: Exception | None = None
        for _ in range(TRIES):
            host = self._ring.hosts.for_key(self._ring.settings.keyspace, NAME, asked)
            try:
                request = self._ring.bind(statement, values)
                rows = self._ring.lease_session.execute(request, host=host, execution_profile=LEASE).all()
                return tuple(rows[0])
            except Exception as exc:  # the driver's errors have no common base
                cause = exc.__cause__ if isinstance(exc, StoreUnavailable) else exc
                if cause is not None and is_for_good(cause):
                    raise PreflightError(
                        f"The lease {NAME} cannot be taken in {self._ring.settings.keyspace}.worker_locks, which the"
                        f" schema is made under: {in_words(cause)}."
                    ) from exc
                self._ring.hosts.failed(host)
                asked.append(host)
                unknown = exc
        raise StoreUnavailable(f"the lease {NAME} cannot be settled: {in_words(unknown or Exception())}") from unknown
