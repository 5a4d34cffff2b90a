"""`strata-daemon status`: nodes, leases and the queue as the store holds them. Works when no daemon runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from strata_daemon.cli.options import STORE_SETTINGS, flags, setting_options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from strata_daemon.leader.store import LeaseReader, LeaseStatus
    from strata_daemon.ports.meta import Meta
    from strata_daemon.ports.nodes import NodeRow

YOUNG_S = 10.0  # as Strata's console judges: healthy up to 10 s, degraded up to the TTL of 30 s
TTL_S = 30.0
PIPE_COLUMNS = 240  # rich takes 80 where there is no terminal, and breaks addresses that somebody greps for
FOLD_FROM = 20  # more shard leases of one holder than this become one line


@click.command(epilog="Example: strata-daemon status --state-dir .strata --json | jq .queue.entries")
@setting_options(STORE_SETTINGS)
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@click.option("--all", "every", is_flag=True, help="A line for each shard lease, however many.")
@click.pass_context
def status(ctx: click.Context, /, as_json: bool, every: bool, **options: Any) -> None:
    """Show nodes, leases and the gc queue, from the store."""
    from strata_daemon import settings
    from strata_daemon.app import open_stores

    chosen = settings.load(flags(options)).settings
    with open_stores(chosen, read_only=True) as stores:
        report = collect(stores.meta, stores.lease_reader, chosen.region, stores.runtime.wall())
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_COLUMNS)
    show(report, console, every=every)


def collect(meta: Meta, leases: LeaseReader, region: str, now: datetime) -> dict[str, Any]:
    """Everything that `--json` prints. Ages and remaining times in seconds. Raises StoreUnavailable."""
    depth = meta.gc_queue.depth(region)
    oldest_s = None if depth.oldest_ms is None else round(max(0.0, now.timestamp() - depth.oldest_ms / 1000), 3)
    counted_s = None if depth.counted_ms is None else round(max(0.0, now.timestamp() - depth.counted_ms / 1000), 1)
    return {
        "nodes": [_node(row, now) for row in meta.nodes.read()],
        "leases": [_lease(each, now) for each in leases.list_leases()],
        "queue": {
            "region": region,
            "entries": depth.entries,
            "is_at_least": depth.is_at_least,
            "counted_age_s": counted_s,
            "oldest_age_s": oldest_s,
            "set_aside": dict(depth.set_aside),
        },
    }


def _node(row: NodeRow, now: datetime) -> dict[str, Any]:
    age_s = TTL_S - (row.remaining_s if row.remaining_s is not None else TTL_S)
    return {
        "node": row.node_id,
        "status": "healthy" if age_s <= YOUNG_S else "degraded",
        "address": row.address,
        "version": row.version,
        "started_at": row.started_at.isoformat(),
        "uptime_s": round(max(0.0, (now - row.started_at).total_seconds()), 1),
        "heartbeat_age_s": round(age_s, 1),
        "workers": sorted(row.workers),
        "leader_for": sorted(row.leader_for),
    }


def _lease(lease: LeaseStatus, now: datetime) -> dict[str, Any]:
    age_s = None if lease.drawn_at is None else round(max(0.0, (now - lease.drawn_at).total_seconds()), 1)
    remaining_s = None if lease.remaining_s is None else round(lease.remaining_s, 1)
    return {
        "lease": lease.lease,
        "node": lease.holder.split("/", 1)[0] if lease.holder else None,
        "holder": lease.holder,
        "token": lease.token,
        "age_s": age_s,
        "remaining_s": remaining_s,
    }


def show(report: dict[str, Any], console: Console, *, every: bool = False) -> None:
    """Tables, worst first; colour only on a terminal."""
    _show_nodes(report["nodes"], console)
    _show_leases(report["leases"], console, every=every)
    queue = report["queue"]
    oldest = "" if queue["oldest_age_s"] is None else f", the oldest {_span(queue['oldest_age_s'])} old"
    least = "at least " if queue["is_at_least"] else ""
    counted = "" if queue["counted_age_s"] is None else f" (counted {_span(queue['counted_age_s'])} ago)"
    console.print(f"[bold]Queue[/] of {queue['region']}: {least}{queue['entries']:,} entries{oldest}{counted}")
    for reason, count in sorted(queue["set_aside"].items()):
        console.print(f"  [yellow]{count:,} set aside[/]: {reason}", highlight=False)


def _show_nodes(nodes: Sequence[dict[str, Any]], console: Console) -> None:
    from rich.markup import escape

    if not nodes:
        console.print("[bold]Nodes[/]: none is running")
        return
    table = _table("Nodes", "node", "status", "address", "version", "uptime", "workers", "leader for")
    for node in sorted(nodes, key=lambda each: (each["status"] == "healthy", each["node"])):
        colour = "green" if node["status"] == "healthy" else "yellow"
        table.add_row(
            escape(node["node"]),
            f"[{colour}]{node['status']}[/]",
            escape(node["address"]),
            escape(node["version"]),
            _span(node["uptime_s"]),
            escape(" ".join(node["workers"]) or "-"),
            escape(" ".join(node["leader_for"]) or "-"),
        )
    console.print(table)


def _show_leases(leases: Sequence[dict[str, Any]], console: Console, *, every: bool) -> None:
    from rich.markup import escape

    if not leases:
        console.print("[bold]Leases[/]: none is held")
        return
    table = _table("Leases", "lease", "node", "token", "age", "remaining")
    for name, group in _folded(leases, every=every):
        first = min(group, key=_remaining)
        token = "-" if first["token"] is None else str(first["token"])
        shown = _span(first["remaining_s"]) if first["remaining_s"] is not None else "[red]never ends[/]"
        age = "-" if first["age_s"] is None else _span(max(each["age_s"] or 0.0 for each in group))
        table.add_row(escape(name), escape(first["node"] or "-"), token if len(group) == 1 else "-", age, shown)
    console.print(table)


def _folded(leases: Sequence[dict[str, Any]], *, every: bool) -> list[tuple[str, Sequence[dict[str, Any]]]]:
    """Shard leases of one worker and one node as one line when they are many; the soonest to end first."""
    groups: dict[tuple[str, Any], list[dict[str, Any]]] = defaultdict(list)
    for lease in leases:
        stem, _, shard = lease["lease"].rpartition("-")
        key = (stem, lease["node"]) if shard.isdigit() else (lease["lease"], lease["node"])
        groups[key].append(lease)
    lines: list[tuple[str, Sequence[dict[str, Any]]]] = []
    for (stem, _), group in groups.items():
        if len(group) > FOLD_FROM and not every:
            lines.append((f"{stem}-* ({len(group)} shards)", group))
        else:
            lines.extend((lease["lease"], [lease]) for lease in group)
    return sorted(lines, key=lambda line: (min(map(_remaining, line[1])), line[0]))


def _remaining(lease: dict[str, Any]) -> float:
    """A lease that never ends comes first: nobody else will ever get it."""
    return -1.0 if lease["remaining_s"] is None else float(lease["remaining_s"])


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _span(seconds: float) -> str:
    """A duration at a glance: the two largest units."""
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.0f}s"
    for size, unit, smaller, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // smaller}{name}"
    return f"{whole}s"
