"""What `strata-daemon check` says of a ring: what a start would stumble over, and what it would only warn of.

Changes nothing, and asks each thing in bounded time; what comes after the budget is said to be left out. Blocks; the
command's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cassandra import Unauthorized

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.findings import Finding, fail, ok, warn
from strata_daemon.base.runtime import Runtime
from strata_daemon.leader.store import Allowance
from strata_daemon.stores.cassandra import preflight
from strata_daemon.stores.cassandra.connect import LEASE
from strata_daemon.stores.cassandra.contacts import Contact, knock, reach
from strata_daemon.stores.cassandra.contacts import in_words as contact_in_words
from strata_daemon.stores.cassandra.errors import in_words
from strata_daemon.stores.cassandra.leases import ROUNDING_S
from strata_daemon.stores.cassandra.replication import literal
from strata_daemon.stores.cassandra.rights import MODIFY, SELECT, Probe, ask, judge_rights
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.schema import create_keyspace
from strata_daemon.stores.cassandra.skew import FACTOR, LEAST_S, Offset, SkewMeter, allowed_s, spread_s

BUDGET_S = 12.0  # for the looks; one that has begun may take a little longer
CLOSE_S = 1.0
STOPS_AT_S = 60.0  # workers that delete by age stop there (design.md section 4, wall clocks)
SLOW_VARIANT = "v1"


def check_ring(settings: CassandraSettings, runtime: Runtime) -> tuple[list[Finding], Allowance]:
    """What was found, and what a lease must allow for: by measurement if that came so far."""
    until = runtime.now() + BUDGET_S
    allowance = Allowance(ROUNDING_S, LEAST_S)
    try:
        answers = knock(settings, runtime)
    except PreflightError as exc:
        return [fail("connection", str(exc))], allowance
    findings = contact_findings(answers)
    if all(answers.values()):
        return findings, allowance
    try:
        ring = reach(settings, runtime, answers)
    except (PreflightError, StoreUnavailable) as exc:
        return [*findings, fail("connection", _sentence(exc))], allowance
    try:
        skew = SkewMeter(ring, lambda _skew_s: None)
        looks: list[tuple[str, Callable[[], list[Finding]]]] = [
            ("nodes", lambda: node_findings(settings, ring)),
            ("Strata's keyspace", lambda: preflight.look_at_strata(ring)),
            ("own keyspace", lambda: [*preflight.look_at_own(ring), *may_create(ring)]),
            ("rights", lambda: access_findings(ring)),
            ("clocks", lambda: clock_findings(ring, skew)),
        ]
        for about, look in looks:
            findings += _guarded(about, look) if runtime.now() < until else [_left_out(about)]
        return findings, Allowance(ROUNDING_S, allowed_s(skew.offsets))
    finally:
        ring.close(CLOSE_S)


def _guarded(about: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except (PreflightError, StoreUnavailable) as exc:
        return [fail(about, _sentence(exc))]


def _sentence(exc: Exception) -> str:
    text = str(exc)
    return f"{text[0].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


def _left_out(about: str) -> Finding:
    return warn(about, f"Not looked at: the ring took more than {BUDGET_S:g} s for what comes before. Try again.")


def contact_findings(answers: Mapping[Contact, str | None]) -> list[Finding]:
    """One a contact point. While one answers the others are no failure: the nodes are found through it."""
    some = any(reason is None for reason in answers.values())
    findings = []
    for contact, reason in answers.items():
        if reason is None:
            findings.append(ok("contact point", f"{contact_in_words(contact)} answers."))
        else:
            says = f"{contact_in_words(contact)} cannot be used: {reason}."
            findings.append(warn("contact point", says) if some else fail("contact point", says))
    return findings


def node_findings(settings: CassandraSettings, ring: Ring) -> list[Finding]:
    """The data centre, and for each of its nodes whether it answers and what it is."""
    local = ring.hosts.local()
    versions = _ask_nodes(ring, local, "SELECT release_version FROM system.local")
    variants = _ask_nodes(ring, local, "SELECT value FROM system_views.settings WHERE name = 'paxos_variant'")
    silent = [host for host in local if isinstance(versions[host], Exception)]
    findings = [ok("data centre", f"{len(local) - len(silent)} of {len(local)} nodes in {settings.local_dc} answer.")]
    findings += [
        warn("node", f"The node {host.endpoint} does not answer: {in_words(versions[host])}.")  # type: ignore[arg-type]
        for host in silent
    ]
    told = {version for version in versions.values() if isinstance(version, str)}
    findings.append(version_finding(told))
    return [*findings, variant_finding({variant for variant in variants.values() if isinstance(variant, str)})]


def _ask_nodes(ring: Ring, hosts: Sequence[Any], cql: str) -> dict[Any, str | Exception | None]:
    """The first column of the first row by node, all asked at once."""
    futures = {host: ring.lease_session.execute_async(cql, execution_profile=LEASE, host=host) for host in hosts}
    answers: dict[Any, str | Exception | None] = {}
    for host, future in futures.items():
        try:
            row = future.result().one()
            answers[host] = row[0] if row else None
        except Exception as exc:  # the driver's errors have no common base
            answers[host] = exc
    return answers


def version_finding(told: set[str]) -> Finding:
    versions = ", ".join(sorted(told)) or "unknown"
    if any(not version.startswith(("4.", "5.")) for version in told):
        return warn("version", f"Cassandra {versions}: this daemon is made for 4.x and 5.x.")
    if len(told) > 1:
        return warn("version", f"The nodes run different versions of Cassandra ({versions}): finish the upgrade.")
    return ok("version", f"Cassandra {versions}.")


def variant_finding(told: set[str]) -> Finding:
    """v2 halves what a renewal costs, and lets contenders for a lease queue (cassandra-facts.md I.4)."""
    if not told:
        return ok("paxos", "The variant of Paxos cannot be read here.")
    if told == {SLOW_VARIANT}:
        return warn(
            "paxos",
            "The nodes use Paxos v1, where a renewal costs twice as much and candidates get in each other's way:"
            " consider paxos_variant: v2 in cassandra.yaml (on all nodes; read Cassandra's NEWS.txt on it first).",
        )
    if len(told) > 1:
        return warn("paxos", f"The nodes use different variants of Paxos ({', '.join(sorted(told))}): set one.")
    return ok("paxos", f"Paxos {', '.join(told)}.")


def may_create(ring: Ring) -> list[Finding]:
    """Whether our keyspace, where it is needed and not there, could be made: by making Strata's, which is there."""
    settings, known = ring.settings, ring.cluster.metadata.keyspaces
    if settings.own_keyspace in known or settings.keyspace not in known or not settings.schema_apply:
        return []
    cql = create_keyspace(settings.keyspace, literal(known[settings.keyspace]))
    try:
        ring.lease_session.execute(cql, execution_profile=LEASE)
    except Unauthorized as exc:
        return [
            fail(
                preflight.OWN,
                f"The daemon's own keyspace {settings.own_keyspace} does not exist, and may not be made by this user"
                f" ({in_words(exc)}): let somebody who may run `strata-daemon schema apply`, or the statements of"
                " `strata-daemon schema print`.",
            )
        ]
    except Exception as exc:  # the driver's errors have no common base
        return [warn(preflight.OWN, f"Whether it may be made is not known: {in_words(exc)}.")]
    return []


def access_findings(ring: Ring) -> list[Finding]:
    """Rights on each table that is there, and whether the levels answer, by one set of questions."""
    probes = preflight.probes(ring)
    if not probes:
        return []
    failed = ask(ring, probes)
    rights = judge_rights(probes, failed, ring.settings.username)
    if not rights:
        rights = [ok("rights", "Every table that the daemon uses may be read and written.")]
    return [*rights, *level_findings(probes, failed)]


def level_findings(probes: Sequence[Probe], failed: Mapping[Probe, Exception]) -> list[Finding]:
    """Reads at LOCAL_QUORUM, and conditional statements at LOCAL_SERIAL that commit at LOCAL_QUORUM."""
    findings = []
    for right, level in ((SELECT, "LOCAL_QUORUM"), (MODIFY, "LOCAL_SERIAL")):
        asked = [probe for probe in probes if probe.right == right and not isinstance(failed.get(probe), Unauthorized)]
        broken = [probe for probe in asked if probe in failed]
        if broken:
            why = in_words(failed[broken[0]])
            says = f"{len(broken)} of {len(asked)} tables do not answer at {level} ({broken[0].name}: {why})."
            findings.append(fail("levels", f"{says} Leases need it; see which nodes are down."))
        elif asked:
            findings.append(ok("levels", f"{level} works on {len(asked)} tables."))
    return findings


def clock_findings(ring: Ring, skew: SkewMeter) -> list[Finding]:
    skew.measure()
    # Offsets count from the clock that cannot step; ages are judged by the host's wall clock.
    host_s = ring.runtime.wall().timestamp() - ring.runtime.now()
    missing = [host for host in ring.hosts.local() if str(host.endpoint.address) not in skew.offsets]
    return judge_clocks(skew.offsets, host_s, [str(host.endpoint) for host in missing])


def judge_clocks(offsets: Mapping[str, Offset], host_s: float, missing: Sequence[str]) -> list[Finding]:
    """`host_s`: this host's wall clock, counted as the offsets are."""
    findings = [_clock(node, offset, offset.seconds - host_s) for node, offset in sorted(offsets.items())]
    if missing:
        findings.append(warn("clock", f"The clock of {', '.join(missing)} could not be read within 200 ms."))
    if FACTOR * spread_s(offsets) > LEAST_S:
        findings.append(
            warn(
                "clock",
                f"The nodes' clocks are {spread_s(offsets):.3g} s apart, so each lease allows for"
                f" {allowed_s(offsets):.3g} s of skew: synchronise them (chrony, NTP).",
            )
        )
    return findings


def _clock(node: str, offset: Offset, ahead_s: float) -> Finding:
    side = "ahead of" if ahead_s >= 0 else "behind"
    says = f"The clock of {node} is {abs(ahead_s):.3f} s {side} this host's (measured to {offset.error_s:.3f} s)"
    if abs(ahead_s) > STOPS_AT_S:
        return fail("clock", f"{says}: over {STOPS_AT_S:g} s gc deletes nothing. Synchronise both (chrony, NTP).")
    if abs(ahead_s) > LEAST_S + offset.error_s:
        return warn("clock", f"{says}: synchronise both (chrony, NTP).")
    return ok("clock", f"{says}.")
