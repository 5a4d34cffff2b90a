"""Where the rows of a keyspace live, and what of it a lease cannot stand (design.md section 4, data centres).

LOCAL_SERIAL elects one leader in each data centre. Judges plain values; asks nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata_daemon.base.findings import Finding, fail, ok, warn

ABOUT = "replication"


@dataclass(frozen=True, slots=True)
class Replication:
    """`factors` by data centre; empty for a strategy without data centres, whose one factor is `everywhere`."""

    strategy: str
    factors: Mapping[str, int]
    everywhere: int = 0


def replication_of(metadata: Any) -> Replication:
    """Of the driver's metadata of a keyspace."""
    strategy = metadata.replication_strategy
    name = getattr(strategy, "name", None) or type(strategy).__name__
    info = getattr(strategy, "dc_replication_factors_info", None)
    if info is not None:
        return Replication(name, {dc: f.all_replicas for dc, f in info.items() if f.all_replicas})
    return Replication(name, {}, int(getattr(strategy, "replication_factor", 0) or 0))


def literal(metadata: Any) -> str:
    """As a CQL map, for another keyspace that shall have the same."""
    return str(metadata.replication_strategy.export_for_schema())


def default_literal(local_dc: str, nodes: int) -> str:
    return (
        f"{{'class': 'NetworkTopologyStrategy', '{local_dc.replace(chr(39), 2 * chr(39))}': '{min(3, max(1, nodes))}'}}"
    )


def judge(
    keyspace: str, replication: Replication, local_dc: str, lease_dc: str, data_centres: Sequence[str]
) -> list[Finding]:
    """What an operator must know of a keyspace's replication. `data_centres`: those of the ring."""
    if not replication.factors:
        return _judge_everywhere(keyspace, replication, local_dc, data_centres)
    factor = replication.factors.get(local_dc, 0)
    if not factor:
        kept = ", ".join(sorted(replication.factors))
        return [
            fail(
                ABOUT,
                f"The keyspace {keyspace} has no replica in the data centre {local_dc} (STRATA_CASSANDRA_DC), only in"
                f" {kept}: run this daemon there, or ALTER KEYSPACE {keyspace}.",
            )
        ]
    if len(replication.factors) > 1 and not lease_dc:
        kept = ", ".join(sorted(replication.factors))
        return [
            fail(
                ABOUT,
                f"The keyspace {keyspace} is replicated to {len(replication.factors)} data centres ({kept}), and"
                " LOCAL_SERIAL would elect a leader in each: set STRATA_LEASE_DC to the one in which every daemon and"
                " every gateway with workers runs, the same for all.",
            )
        ]
    return [_factor(keyspace, factor, f"in {local_dc}")]


def _judge_everywhere(
    keyspace: str, replication: Replication, local_dc: str, data_centres: Sequence[str]
) -> list[Finding]:
    if len(data_centres) > 1:
        return [
            fail(
                ABOUT,
                f"The keyspace {keyspace} uses {replication.strategy}, which knows no data centre, on a ring that has"
                f" {len(data_centres)} ({', '.join(data_centres)}): some leases would have no replica in {local_dc}."
                f" ALTER KEYSPACE {keyspace} to NetworkTopologyStrategy.",
            )
        ]
    return [_factor(keyspace, replication.everywhere, f"by {replication.strategy}")]


def _factor(keyspace: str, factor: int, where: str) -> Finding:
    if factor == 1:
        return warn(
            ABOUT,
            f"The keyspace {keyspace} has replication factor 1 {where}: while one node is away, no lease on it can be"
            " taken or kept and no row of it read, and a lost disk loses rows. Use 3.",
        )
    if factor == 2:
        return warn(
            ABOUT,
            f"The keyspace {keyspace} has replication factor 2 {where}: a quorum is both replicas, so one node away"
            " stops as much as with factor 1. Use 3.",
        )
    return ok(ABOUT, f"The keyspace {keyspace} has replication factor {factor} {where}.")
