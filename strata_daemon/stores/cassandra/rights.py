"""What the user may do, found out by statements that change nothing: `system_auth` is usually not readable.

For each table a read of a key that nobody uses, and a conditional statement on it that is always refused; both need a
quorum, so they also tell whether the levels work. Statements are not prepared: a node that hangs would hold up each
preparation. Blocks for four seconds at most, however many probes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cassandra import Unauthorized
from cassandra.query import SimpleStatement

from strata_daemon.base.findings import Finding, fail
from strata_daemon.stores.cassandra.connect import LEASE
from strata_daemon.stores.cassandra.errors import is_for_good
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.schema import OWN_TABLES, Table
from strata_daemon.stores.cassandra.statements import LEVEL, SERIAL_LEVEL
from strata_daemon.stores.cassandra.strata_schema import BY_NAME, READ, WRITTEN

ABOUT = "rights"
TRIES, TRY_S = 2, 2.0
SELECT, MODIFY = "SELECT", "MODIFY"
PROBED = "strata-daemon-probe"  # no lease, node, region or bucket has this name
# A value for each type that occurs in a key of the tables that are probed.
VALUES = {
    "text": f"'{PROBED}'",
    "int": "0",
    "bigint": "0",
    "timestamp": "0",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "timeuuid": "00000000-0000-1000-8000-000000000000",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """`cql` needs `right` on `table`; it changes nothing."""

    keyspace: str
    table: str
    right: str
    cql: str

    @property
    def name(self) -> str:
        return f"{self.keyspace}.{self.table}"


def _key(table: Table) -> str:
    names = (*table.partition, *table.clustering)
    return " AND ".join(f"{name} = {VALUES[table.columns[name]]}" for name in names)


def _probes(keyspace: str, table: Table, rights: Sequence[str]) -> list[Probe]:
    cql = {
        SELECT: f"SELECT {table.partition[0]} FROM {keyspace}.{table.name} WHERE {_key(table)}",
        MODIFY: f"DELETE FROM {keyspace}.{table.name} WHERE {_key(table)} IF EXISTS",
    }
    return [Probe(keyspace, table.name, right, cql[right]) for right in rights]


def strata_probes(keyspace: str, *, only_reads: bool = False) -> list[Probe]:
    written = [SELECT] if only_reads else [SELECT, MODIFY]
    return [probe for name in WRITTEN for probe in _probes(keyspace, BY_NAME[name], written)] + [
        probe for name in READ for probe in _probes(keyspace, BY_NAME[name], [SELECT])
    ]


def own_probes(keyspace: str, *, only_reads: bool = False) -> list[Probe]:
    rights = [SELECT] if only_reads else [SELECT, MODIFY]
    return [probe for table in OWN_TABLES for probe in _probes(keyspace, table, rights)]


def ask(ring: Ring, probes: Sequence[Probe]) -> dict[Probe, Exception]:
    """Send all at once, and those without an answer a second time to another node; what failed, and why."""
    failed: dict[Probe, Exception] = {}
    left = list(probes)
    for _ in range(TRIES):
        sent = [(probe, host := ring.hosts.any(), _send(ring, probe, host)) for probe in left]
        left = []
        for probe, host, future in sent:
            try:
                future.result()
                failed.pop(probe, None)
            except Exception as exc:  # the driver's errors have no common base
                failed[probe] = exc
                if not is_for_good(exc):
                    ring.hosts.failed(host)
                    left.append(probe)
    return failed


def _send(ring: Ring, probe: Probe, host: Any) -> Any:
    statement = SimpleStatement(probe.cql, consistency_level=LEVEL, serial_consistency_level=SERIAL_LEVEL)
    return ring.lease_session.execute_async(statement, execution_profile=LEASE, host=host, timeout=TRY_S)


def missing_rights(ring: Ring, probes: Sequence[Probe]) -> list[Finding]:
    """A failure for each right that Cassandra denies; what could not be asked is no finding here."""
    return judge_rights(probes, ask(ring, probes), ring.settings.username)


def judge_rights(probes: Sequence[Probe], failed: Mapping[Probe, Exception], user: str) -> list[Finding]:
    """By keyspace and right: all tables that lack it in one sentence."""
    findings = []
    for keyspace, right in dict.fromkeys((probe.keyspace, probe.right) for probe in probes):
        asked = [probe for probe in probes if (probe.keyspace, probe.right) == (keyspace, right)]
        denied = [probe.table for probe in asked if isinstance(failed.get(probe), Unauthorized)]
        if denied:
            of = (
                f"the keyspace {keyspace}"
                if len(denied) == len(asked)
                else f"{keyspace}.{f', {keyspace}.'.join(denied)}"
            )
            who = f"The user {user}" if user else "A client without a login"
            to = f" Let a superuser run: GRANT {right} ON KEYSPACE {keyspace} TO {user};" if user else ""
            findings.append(fail(ABOUT, f"{who} has no right to {right} on {of}, which the daemon needs.{to}"))
    return findings
