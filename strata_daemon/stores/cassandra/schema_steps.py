"""Looks at the keyspaces of a ring and makes ours, one process at a time (design.md section 4, own tables).

Concurrent CREATEs of one table can leave nodes with two ids of it, so each statement runs under a lease in
`worker_locks`, on nodes that agree on the schema, after another look. What the tables are is in `schema` and
`strata_schema`. Blocks; the opener's thread, or a command's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cassandra.protocol import ConfigurationException

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.stores.cassandra.connect import DDL, LEASE
from strata_daemon.stores.cassandra.errors import in_words, is_for_good
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.schema import (
    OWN_TABLES,
    VERSION,
    VERSION_NAME,
    Differences,
    Found,
    Table,
    compare,
    create_keyspace,
    own_statements,
    record_version,
)
from strata_daemon.stores.cassandra.schema_lease import NAME, SchemaLease
from strata_daemon.stores.cassandra.strata_schema import BY_NAME, STRATA_TABLES, TYPES, create_type

WAIT_S = 90.0  # for another process that is at it: its lease runs out after 60 s
LOOK_S = 1.0
TRIES = 2
Say = Callable[[str], None]


class Refused(PreflightError):
    """Cassandra refused a statement for good. A clause, since whoever asked knows what it was for."""


def silent(_: str) -> None:
    """Says nothing."""


def found_tables(ring: Ring, keyspace: str) -> dict[str, Found] | None:
    """The tables of a keyspace by what the driver last read; None when there is no such keyspace."""
    known = ring.cluster.metadata.keyspaces.get(keyspace)
    if known is None:
        return None
    return {name: _found(metadata) for name, metadata in known.tables.items()}


def _found(metadata: Any) -> Found:
    return Found(
        columns={name: column.cql_type for name, column in metadata.columns.items()},
        partition=tuple(column.name for column in metadata.partition_key),
        clustering=tuple(column.name for column in metadata.clustering_key),
        descending=frozenset(column.name for column in metadata.clustering_key if column.is_reversed),
    )


def refresh(ring: Ring) -> None:
    """Read the schema anew, once all nodes that are up agree on it. Raises StoreUnavailable."""
    try:
        ring.cluster.refresh_schema_metadata()
    except Exception as exc:  # the driver's errors have no common base
        raise StoreUnavailable(f"the nodes do not agree on the schema: {in_words(exc)}") from exc


def own_differences(ring: Ring) -> Differences | None:
    """What our keyspace lacks; None when it is not there at all."""
    found = found_tables(ring, ring.settings.own_keyspace)
    return None if found is None else compare(OWN_TABLES, found)


def read_version(ring: Ring) -> int | None:
    """The version that was last written; None when none was. Raises StoreUnavailable, PreflightError."""
    cql = f"SELECT version FROM {ring.settings.own_keyspace}.schema_version WHERE name = '{VERSION_NAME}'"
    problem: Exception | None = None
    for _ in range(TRIES):
        host = ring.hosts.any()
        try:
            row = ring.lease_session.execute(cql, execution_profile=LEASE, host=host).one()
            return row[0] if row else None
        except Exception as exc:  # the driver's errors have no common base
            if is_for_good(exc):
                table = f"{ring.settings.own_keyspace}.schema_version"
                raise Refused(f"the table {table} cannot be read: {in_words(exc)}") from exc
            ring.hosts.failed(host)
            problem = exc
    raise StoreUnavailable(f"the version of the schema cannot be read: {in_words(problem or Exception())}") from problem


def is_own_ready(ring: Ring) -> bool:
    """Whether there is nothing to make: our keyspace has all, and says so. Raises StoreUnavailable."""
    differences = own_differences(ring)
    if differences is None or differences:
        return False
    version = read_version(ring)
    return version is not None and version >= VERSION


def make_own(ring: Ring, replication: str, say: Say = silent) -> None:
    """Make what our keyspace lacks; nothing when it lacks nothing. May be called by many processes at once.

    Raises PreflightError when it is not permitted or cannot be, StoreUnavailable when another try may end better.
    """
    with _lease(ring, lambda: is_own_ready(ring), say) as lease:
        if lease is not None:
            _mend(ring, ring.settings.own_keyspace, replication, OWN_TABLES, lease.keep, say)
            if (read_version(ring) or 0) < VERSION:
                lease.keep()
                _change(ring, record_version(ring.settings.own_keyspace))
                say(f"version {VERSION} of the schema is recorded")


def make_strata(ring: Ring, replication: str, say: Say = silent) -> None:
    """Make what Strata's keyspace lacks: for labs and tests. The lease has its table in there, so that one comes first.

    Raises PreflightError and StoreUnavailable as `make_own` does.
    """
    keyspace = ring.settings.keyspace
    refresh(ring)
    _mend(ring, keyspace, replication, [BY_NAME["worker_locks"]], lambda: None, say)
    with _lease(ring, lambda: False, say) as lease:
        assert lease is not None
        for name in TYPES:
            if name not in ring.cluster.metadata.keyspaces[keyspace].user_types:
                lease.keep()
                _change(ring, create_type(keyspace, name))
                say(f"type {keyspace}.{name} is made")
        _mend(ring, keyspace, replication, STRATA_TABLES, lease.keep, say)


@contextmanager
def _lease(ring: Ring, is_done: Callable[[], bool], say: Say) -> Iterator[SchemaLease | None]:
    """The lease, with the schema read anew under it; None when `is_done` while another process had it."""
    lease = SchemaLease(ring)
    give_up_at = ring.runtime.now() + WAIT_S
    waits_for = ""
    try:
        while (holder := lease.try_take()) is not None:
            if holder != waits_for:
                say(f"waiting for another process ({holder}) that is at the schema")
                waits_for = holder
            if ring.runtime.now() >= give_up_at:
                raise StoreUnavailable(
                    f"another process ({holder}) has held the lease {NAME} for {WAIT_S:g} s, so the schema could not"
                    f" be made; if no such process lives, delete that row of {ring.settings.keyspace}.worker_locks"
                )
            ring.runtime.event().wait(LOOK_S)
            if _is_done_by_another(ring, is_done):
                yield None
                return
        refresh(ring)
        yield lease
    finally:
        lease.release()


def _is_done_by_another(ring: Ring, is_done: Callable[[], bool]) -> bool:
    try:
        refresh(ring)
        return is_done()
    except StoreUnavailable:  # it is just being made: nodes disagree for moments
        return False


def _mend(
    ring: Ring, keyspace: str, replication: str, tables: Sequence[Table], keep: Callable[[], None], say: Say
) -> None:
    """Create and add what is missing, by the schema that the driver knows."""
    found = found_tables(ring, keyspace)
    if found is None:
        keep()
        _change(ring, create_keyspace(keyspace, replication))
        say(f"keyspace {keyspace} is made with {replication}")
    differences = compare(tables, found or {})
    by_name: Mapping[str, Table] = {table.name: table for table in tables}
    for name in differences.tables:
        keep()
        _change(ring, by_name[name].create(keyspace))
        say(f"table {keyspace}.{name} is made")
    for name, column in differences.columns:
        keep()
        _change(ring, by_name[name].add(keyspace, column))
        say(f"column {keyspace}.{name}.{column} is added")
    if differences.wrong:
        raise PreflightError(f"The keyspace {keyspace} {'; it '.join(differences.wrong)}: that cannot be mended here.")


def _change(ring: Ring, cql: str) -> None:
    """One statement, and the nodes' agreement on it."""
    what = re.split(r"\(| WITH ", cql, maxsplit=1)[0].strip()
    try:
        result = ring.lease_session.execute(cql, execution_profile=DDL)
    except Exception as exc:  # the driver's errors have no common base
        if is_for_good(exc) or isinstance(exc, ConfigurationException):
            raise Refused(f"Cassandra refused `{what}`: {in_words(exc)}") from exc
        raise StoreUnavailable(f"the schema could not be made ({what}): {in_words(exc)}") from exc
    if not result.response_future.is_schema_agreed:
        raise StoreUnavailable(f"the nodes do not agree on the schema after {what}")


def missing_own(ring: Ring, replication: str, why: str) -> PreflightError:
    """Our keyspace is not as it must be, and we may not make it: `why`, and the statements for somebody who may."""
    own = ring.settings.own_keyspace
    differences = own_differences(ring)
    state = "does not exist" if differences is None else " and ".join(differences.clauses()) or "is not complete"
    cql = ";\n".join(own_statements(own, replication))
    return PreflightError(
        f"The daemon's own keyspace {own} {state}, and {why}. Let somebody who may run `strata-daemon schema apply`,"
        f" or these statements (as `strata-daemon schema print` gives them):\n{cql};"
    )
