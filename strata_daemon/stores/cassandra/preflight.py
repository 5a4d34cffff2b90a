"""Whether a ring's keyspaces are fit to be worked on: what a start refuses, and what `check` says of the same things.

Looks at what the driver knows and asks little more. Blocks; the opener's thread, or a command's.
"""

from __future__ import annotations

from strata_daemon.base import log
from strata_daemon.base.errors import PreflightError
from strata_daemon.base.findings import Finding, Grade, fail, failures, ok, warn
from strata_daemon.stores.cassandra.replication import judge, literal, replication_of
from strata_daemon.stores.cassandra.rights import Probe, missing_rights, own_probes, strata_probes
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.schema import OWN_TABLES, VERSION, compare
from strata_daemon.stores.cassandra.schema_steps import (
    Refused,
    found_tables,
    is_own_ready,
    make_own,
    missing_own,
    own_differences,
    read_version,
    refresh,
)
from strata_daemon.stores.cassandra.strata_schema import NEEDED

KEYSPACE, SCHEMA, OWN = "keyspace", "schema", "own keyspace"
TELLING = {"worker_locks", "gc_entries_v2", "objects", "buckets"}  # a keyspace with these looks like Strata's


def refuse_unfit(ring: Ring, *, may_apply: bool, only_reads: bool = False) -> None:
    """Make our keyspace when that is allowed and needed. `only_reads`: nothing will be written, ever.

    Raises PreflightError with one sentence when the ring is not fit, StoreUnavailable when another try may tell.
    """
    if ring.settings.keyspace not in ring.cluster.metadata.keyspaces:
        refresh(ring)
    findings = _passed(look_at_strata(ring))
    _passed(missing_rights(ring, probes(ring, only_reads=only_reads)))
    if _make_own(ring, may_apply=may_apply):
        _passed(missing_rights(ring, probes(ring, only_reads=only_reads)))
    findings += _passed(look_at_own(ring))
    # At last, since a start on a ring that does not answer all of this is repeated.
    for finding in findings:
        if finding.grade is Grade.WARN:
            log.logger("ring").warning("ring not as it should be", extra={"problem": finding.says})


def _passed(findings: list[Finding]) -> list[Finding]:
    for failure in failures(findings):
        raise PreflightError(failure.says)
    return findings


def probes(ring: Ring, *, only_reads: bool = False) -> list[Probe]:
    """For each table that the daemon uses and that is there."""
    settings, known = ring.settings, ring.cluster.metadata.keyspaces
    wanted = strata_probes(settings.keyspace, only_reads=only_reads)
    wanted += own_probes(settings.own_keyspace, only_reads=only_reads)
    return [probe for probe in wanted if probe.keyspace in known and probe.table in known[probe.keyspace].tables]


def _make_own(ring: Ring, *, may_apply: bool) -> bool:
    """Whether anything was made."""
    if is_own_ready(ring):
        return False
    replication = literal(ring.cluster.metadata.keyspaces[ring.settings.keyspace])
    logger = log.logger("ring")
    if may_apply:
        try:
            make_own(ring, replication, lambda step: logger.info("own keyspace", extra={"step": step}))
        except Refused as exc:
            raise missing_own(ring, replication, str(exc)) from exc
        return True
    refresh(ring)  # another process may have made it just now
    if own_differences(ring) is None or own_differences(ring):
        why = (
            "nobody has started a daemon yet or called `schema apply`"
            if ring.settings.schema_apply
            else "STRATA_DAEMON_SCHEMA_APPLY is false, so a start does not make it"
        )
        raise missing_own(ring, replication, why)
    return False


def look_at_strata(ring: Ring) -> list[Finding]:
    """Strata's keyspace: whether it is there, where it lives, and whether it has what the daemon needs."""
    settings = ring.settings
    found = found_tables(ring, settings.keyspace)
    if found is None:
        return [fail(KEYSPACE, _no_keyspace(ring))]
    findings = [
        ok(KEYSPACE, f"The keyspace {settings.keyspace} is there."),
        *look_at_replication(ring, settings.keyspace),
    ]
    if differences := compare([table.base for table in NEEDED], found):
        lacks = "; it ".join(differences.clauses())
        findings.append(
            fail(
                SCHEMA,
                f"The keyspace {settings.keyspace} {lacks}: start a current gateway on it once, which adds what is"
                " missing, or correct STRATA_CASSANDRA_KEYSPACE.",
            )
        )
    elif (newer := compare(NEEDED, found)).columns:
        names = ", ".join(f"{table}.{column}" for table, column in newer.columns)
        findings.append(
            warn(
                SCHEMA,
                f"The keyspace {settings.keyspace} is an old one: it has no {names}. The daemon does without; a current"
                " gateway adds them at its start.",
            )
        )
    else:
        findings.append(ok(SCHEMA, f"The keyspace {settings.keyspace} has all {len(NEEDED)} tables that are needed."))
    return findings


def _no_keyspace(ring: Ring) -> str:
    known = ring.cluster.metadata.keyspaces
    alike = sorted(name for name, keyspace in known.items() if keyspace.tables.keys() >= TELLING)
    those = f" Strata's tables are in {', '.join(alike)}." if alike else ""
    return (
        f"The ring has no keyspace {ring.settings.keyspace} (STRATA_CASSANDRA_KEYSPACE), and the daemon never makes it:"
        f" a gateway does at its first start.{those}"
    )


def look_at_replication(ring: Ring, keyspace: str) -> list[Finding]:
    replication = replication_of(ring.cluster.metadata.keyspaces[keyspace])
    data_centres = sorted({host.datacenter for host in ring.cluster.metadata.all_hosts() if host.datacenter})
    return judge(keyspace, replication, ring.settings.local_dc, ring.settings.lease_dc, data_centres)


def look_at_own(ring: Ring) -> list[Finding]:
    """Our keyspace: where it lives, its tables and their version. Raises StoreUnavailable."""
    own = ring.settings.own_keyspace
    differences = own_differences(ring)
    if differences is None:
        return [_not_there(ring)]
    findings = _own_replication(ring)
    if differences:
        lacks = "; it ".join(differences.clauses())
        can_mend = ring.settings.schema_apply and not differences.wrong
        how = "the next start adds that" if can_mend else "call `strata-daemon schema apply`"
        if differences.wrong:
            how = "it was not made by a strata-daemon; choose another name by STRATA_DAEMON_KEYSPACE"
        says = f"The daemon's own keyspace {own} {lacks}: {how}."
        return [*findings, warn(OWN, says) if can_mend else fail(OWN, says)]
    return [*findings, _version(own, read_version(ring))]


def _own_replication(ring: Ring) -> list[Finding]:
    """Nothing when it is as that of Strata's keyspace, of which all was said."""
    known, settings = ring.cluster.metadata.keyspaces, ring.settings
    own = known[settings.own_keyspace]
    if settings.keyspace in known and literal(own) == literal(known[settings.keyspace]):
        return []
    return [each for each in look_at_replication(ring, settings.own_keyspace) if each.grade is not Grade.OK]


def _not_there(ring: Ring) -> Finding:
    own = ring.settings.own_keyspace
    if ring.settings.schema_apply:
        return ok(OWN, f"The daemon's own keyspace {own} does not exist yet; the first start makes it.")
    return fail(
        OWN,
        f"The daemon's own keyspace {own} does not exist, and STRATA_DAEMON_SCHEMA_APPLY is false: let somebody who may"
        " run `strata-daemon schema apply`, or the statements of `strata-daemon schema print`.",
    )


def _version(own: str, version: int | None) -> Finding:
    """Schema N works with daemon N-1, and no further back (design.md section 4)."""
    if version is not None and version > VERSION + 1:
        return fail(
            OWN,
            f"The daemon's own keyspace {own} has schema {version}, and this strata-daemon knows {VERSION} and works"
            f" with {VERSION + 1} at most: upgrade it.",
        )
    tables = f"all {len(OWN_TABLES)} tables"
    if version is not None and version > VERSION:
        return warn(OWN, f"The daemon's own keyspace {own} has {tables} of a newer schema ({version}): upgrade soon.")
    return ok(OWN, f"The daemon's own keyspace {own} has {tables} (schema {version or VERSION}).")
