"""How `check` judges what a ring told: plain values in, findings out. Asks nothing; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cassandra import Unauthorized, Unavailable

from strata_daemon.base.findings import Finding, fail, ok, warn
from strata_daemon.stores.cassandra.contacts import Contact
from strata_daemon.stores.cassandra.contacts import in_words as contact_in_words
from strata_daemon.stores.cassandra.errors import in_words
from strata_daemon.stores.cassandra.rights import MODIFY, SELECT, Probe
from strata_daemon.stores.cassandra.skew import FACTOR, LEAST_S, Offset, allowed_s, spread_s

STOPS_AT_S = 60.0  # workers that delete by age stop there (design.md section 4, wall clocks)
SLOW_VARIANT = "v1"


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


def level_findings(probes: Sequence[Probe], failed: Mapping[Probe, Exception]) -> list[Finding]:
    """Reads at LOCAL_QUORUM, and conditional statements at LOCAL_SERIAL that commit at LOCAL_QUORUM."""
    findings = []
    for right, level in ((SELECT, "LOCAL_QUORUM"), (MODIFY, "LOCAL_SERIAL")):
        asked = [probe for probe in probes if probe.right == right and not isinstance(failed.get(probe), Unauthorized)]
        broken = [probe for probe in asked if probe in failed]
        too_few = [probe for probe in broken if isinstance(failed[probe], Unavailable)]
        if broken:
            shown = (too_few or broken)[0]
            says = f"{len(broken)} of {len(asked)} tables do not answer at {level} ({shown.name}:"
            says += f" {in_words(failed[shown])})."
            # A few that took too long are what one node that hangs costs until the others have noticed it.
            if too_few or len(broken) > len(asked) / 2:
                findings.append(fail("levels", f"{says} Leases need it; see which nodes are down."))
            else:
                findings.append(warn("levels", f"{says} The others do; see whether a node hangs."))
        elif asked:
            findings.append(ok("levels", f"{level} works on {len(asked)} tables."))
    return findings


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
