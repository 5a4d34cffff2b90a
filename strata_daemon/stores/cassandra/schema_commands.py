"""What stands behind `strata-daemon schema`: the text of the schema, its making, a comparison. A command's thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.stores.cassandra.contacts import reach
from strata_daemon.stores.cassandra.preflight import look_at_strata
from strata_daemon.stores.cassandra.replication import default_literal, literal
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.schema import OWN_TABLES, VERSION, Table, compare, own_statements
from strata_daemon.stores.cassandra.schema_steps import (
    Refused,
    Say,
    found_tables,
    make_own,
    make_strata,
    read_version,
    refresh,
)
from strata_daemon.stores.cassandra.strata_schema import STRATA_TABLES, strata_statements

CLOSE_S = 2.0
USUAL_NODES = 3


def text(settings: CassandraSettings, runtime: Runtime, replication: str, *, with_strata: bool) -> str:
    """CQL that may be run as it stands, and more than once."""
    chosen, remark = replication, ""
    if not chosen:
        try:
            with _ring(settings, runtime) as ring:
                chosen = _replication(ring, "")
        except (PreflightError, StoreUnavailable) as exc:
            chosen = settings.replication or default_literal(settings.local_dc, USUAL_NODES)
            reason = " ".join(str(exc).split())
            remark = f"-- The ring could not be asked, so correct the replication, or give --replication. {reason}\n"
    statements = strata_statements(settings.keyspace, chosen) if with_strata else []
    statements += own_statements(settings.own_keyspace, chosen)
    return f"{remark}{_grants(settings)}\n" + "".join(f"\n{statement};\n" for statement in statements)


def _grants(settings: CassandraSettings) -> str:
    user = settings.username or "<the daemon's user>"
    lines = [
        f"-- GRANT {right} ON KEYSPACE {keyspace} TO {user};"
        for keyspace in (settings.keyspace, settings.own_keyspace)
        for right in ("SELECT", "MODIFY")
    ]
    return "\n".join(["-- Where Cassandra checks rights, the daemon needs these afterwards:", *lines])


def apply(settings: CassandraSettings, runtime: Runtime, replication: str, say: Say, *, with_strata: bool) -> None:
    """Make what is missing; says each step, and at last that all is there."""
    with _ring(settings, runtime) as ring:
        refresh(ring)
        if not with_strata and settings.keyspace not in ring.cluster.metadata.keyspaces:
            raise PreflightError(look_at_strata(ring)[0].says)
        try:
            if with_strata:
                make_strata(ring, _replication(ring, replication), say)
                say(f"keyspace {settings.keyspace} has all tables")
            make_own(ring, _replication(ring, replication), say)
        except Refused as exc:
            raise PreflightError(f"The schema cannot be made: {exc}.") from exc
        say(f"keyspace {settings.own_keyspace} has all tables")


def differences(settings: CassandraSettings, runtime: Runtime, *, with_strata: bool) -> list[str]:
    """A sentence for each thing that is otherwise than `apply` would make it."""
    with _ring(settings, runtime) as ring:
        refresh(ring)
        found = _of_keyspace(ring, settings.keyspace, STRATA_TABLES) if with_strata else []
        own = _of_keyspace(ring, settings.own_keyspace, OWN_TABLES)
        if not own and (version := read_version(ring)) != VERSION:
            own = [f"The keyspace {settings.own_keyspace} has schema {version or 'without a version'}, not {VERSION}."]
        return found + own


def _of_keyspace(ring: Ring, keyspace: str, tables: tuple[Table, ...]) -> list[str]:
    found = found_tables(ring, keyspace)
    if found is None:
        return [f"The keyspace {keyspace} does not exist."]
    return [f"The keyspace {keyspace} {clause}." for clause in compare(tables, found).clauses()]


def _replication(ring: Ring, given: str) -> str:
    """What was given, else that of Strata's keyspace, else what it should get."""
    settings, known = ring.settings, ring.cluster.metadata.keyspaces
    if given:
        return given
    if settings.keyspace in known:
        return literal(known[settings.keyspace])
    return settings.replication or default_literal(settings.local_dc, len(ring.hosts.local()))


@contextmanager
def _ring(settings: CassandraSettings, runtime: Runtime) -> Iterator[Ring]:
    ring = reach(settings, runtime)
    try:
        yield ring
    finally:
        ring.close(CLOSE_S)
