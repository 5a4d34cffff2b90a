"""What `strata-daemon check` says of a ring: what a start would stumble over, and what it would only warn of.

Changes nothing. The looks are made one after the other on the thread `check`; whoever called waits for it in bounded
time and leaves the rest, since a node that hangs may cost each look its time-outs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cassandra import Unauthorized

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.findings import Finding, fail, failures, ok, warn
from strata_daemon.base.runtime import Runtime
from strata_daemon.leader.store import Allowance
from strata_daemon.stores.cassandra import preflight
from strata_daemon.stores.cassandra.connect import LEASE
from strata_daemon.stores.cassandra.contacts import knock, reach
from strata_daemon.stores.cassandra.errors import in_words
from strata_daemon.stores.cassandra.leases import ROUNDING_S
from strata_daemon.stores.cassandra.replication import literal
from strata_daemon.stores.cassandra.rights import TRY_S, ask, judge_rights
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.schema import create_keyspace
from strata_daemon.stores.cassandra.skew import LEAST_S, SkewMeter, allowed_s
from strata_daemon.stores.cassandra.verdicts import (
    contact_findings,
    judge_clocks,
    level_findings,
    variant_finding,
    version_finding,
)

BOUND_S = 12.0  # beside the start and the end of the process, which together stay under 15 s
CONNECTED_S, LOOK_S = 1.0, 0.02
CLOSE_S = 1.0
QUORUM = "rights"
LOOKS = ("contact points", "connection", "nodes", "Strata's keyspace", QUORUM, "own keyspace", "clocks")


@dataclass(frozen=True, slots=True)
class Told:
    """What one of the LOOKS found; `allowance` when it measured what a lease must allow for. `failure`: a bug."""

    look: str
    findings: tuple[Finding, ...]
    allowance: Allowance | None = None
    failure: BaseException | None = None


def check_ring(settings: CassandraSettings, runtime: Runtime) -> tuple[list[Finding], Allowance]:
    """What was found within BOUND_S, and what a lease must allow for: by measurement if that came so far."""
    queue = runtime.queue()  # holds an item a look

    def run() -> None:
        try:
            for told in _looks(settings, runtime):
                queue.put(told)
        except BaseException as exc:  # the net at the top of this thread: its owner raises it
            queue.put(Told("", (), failure=exc))

    is_over = runtime.spawn("check", run).join(BOUND_S)
    items: list[Told] = queue.drain()
    for item in items:
        if item.failure is not None:
            raise item.failure
    findings = [finding for item in items for finding in item.findings]
    if not is_over:
        left_out = [look for look in LOOKS if look not in {item.look for item in items}]
        says = f"The ring is slow: not looked at within {BOUND_S:g} s were {', '.join(left_out)}."
        # What asks for a quorum had twice its time-out: a start would come no further.
        findings.append(fail("time", says) if QUORUM in left_out else warn("time", says))
    measured = [item.allowance for item in items if item.allowance is not None]
    return findings, measured[-1] if measured else Allowance(ROUNDING_S, LEAST_S)


def _looks(settings: CassandraSettings, runtime: Runtime) -> Iterator[Told]:
    """Each look in turn; ends early where nothing more can be seen."""
    try:
        answers = knock(settings, runtime)
        yield Told("contact points", tuple(contact_findings(answers)))
        if all(answers.values()):
            return
        ring = reach(settings, runtime, answers)
    except (PreflightError, StoreUnavailable) as exc:
        yield Told("connection", (fail("connection", _sentence(exc)),))
        return
    try:
        _wait_connected(ring)
        yield Told("connection", ())
        nodes = node_findings(settings, ring)
        yield Told("nodes", tuple(nodes))
        if failures(nodes):
            return
        yield _guarded("Strata's keyspace", lambda: preflight.look_at_strata(ring))
        yield _guarded(QUORUM, lambda: access_findings(ring))
        yield _guarded("own keyspace", lambda: [*preflight.look_at_own(ring), *may_create(ring)])
        skew = SkewMeter(ring, lambda _skew_s: None)
        clocks = _guarded("clocks", lambda: clock_findings(ring, skew))
        yield Told(clocks.look, clocks.findings, Allowance(ROUNDING_S, allowed_s(skew.offsets)))
    finally:
        ring.close(CLOSE_S)


def _wait_connected(ring: Ring) -> None:
    """The driver is content with one node and connects to the others by the way: a node that is asked before counts
    as silent."""
    until = ring.runtime.now() + CONNECTED_S
    while ring.runtime.now() < until:
        if {host for host in ring.hosts.local() if host.is_up is not False} <= set(ring.lease_session.get_pool_state()):
            return
        ring.runtime.event().wait(LOOK_S)


def _guarded(name: str, look: Callable[[], list[Finding]]) -> Told:
    try:
        return Told(name, tuple(look()))
    except (PreflightError, StoreUnavailable) as exc:
        return Told(name, (fail(name, _sentence(exc)),))


def _sentence(exc: Exception) -> str:
    text = str(exc)
    return f"{text[0].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


def node_findings(settings: CassandraSettings, ring: Ring) -> list[Finding]:
    """The data centre, and for each of its nodes whether it answers and what it is."""
    local = ring.hosts.local()
    versions = _ask_nodes(ring, local, "SELECT release_version FROM system.local")
    silent = [host for host in local if isinstance(versions[host], Exception)]
    answering = [host for host in local if host not in silent]
    variants = _ask_nodes(ring, answering, "SELECT value FROM system_views.settings WHERE name = 'paxos_variant'")
    for host in silent:
        ring.hosts.failed(host)  # what is asked next goes past it
    told = f"{len(local) - len(silent)} of {len(local)} nodes in {settings.local_dc} answer."
    findings = [fail("data centre", told) if len(silent) == len(local) else ok("data centre", told)]
    findings += [
        warn("node", f"The node {host.endpoint} does not answer: {in_words(versions[host])}.")  # type: ignore[arg-type]
        for host in silent
    ]
    findings.append(version_finding({version for version in versions.values() if isinstance(version, str)}))
    return [*findings, variant_finding({variant for variant in variants.values() if isinstance(variant, str)})]


def _ask_nodes(ring: Ring, hosts: Sequence[Any], cql: str) -> dict[Any, str | Exception | None]:
    """The first column of the first row by node, all asked at once."""
    futures = {
        host: ring.lease_session.execute_async(cql, execution_profile=LEASE, host=host, timeout=TRY_S) for host in hosts
    }
    answers: dict[Any, str | Exception | None] = {}
    for host, future in futures.items():
        try:
            row = future.result().one()
            answers[host] = row[0] if row else None
        except Exception as exc:  # the driver's errors have no common base
            answers[host] = exc
    return answers


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
    if not rights and not failed:
        rights = [ok("rights", "Every table that the daemon uses may be read and written.")]
    return [*rights, *level_findings(probes, failed)]


def clock_findings(ring: Ring, skew: SkewMeter) -> list[Finding]:
    skew.measure()
    # Offsets count from the clock that cannot step; ages are judged by the host's wall clock.
    host_s = ring.runtime.wall().timestamp() - ring.runtime.now()
    missing = [host for host in ring.hosts.local() if str(host.endpoint.address) not in skew.offsets]
    return judge_clocks(skew.offsets, host_s, [str(host.endpoint) for host in missing])
