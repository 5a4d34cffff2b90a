"""`strata-daemon workers`: the names that STRATA_WORKERS takes."""

from __future__ import annotations

import click

from strata_daemon.workers.registry import BUILTIN


@click.command(epilog="Example: strata-daemon workers")
def workers() -> None:
    """List the workers that can be run, a line each."""
    width = max(map(len, BUILTIN))
    for name, entry in sorted(BUILTIN.items()):
        click.echo(f"{name:<{width}}  {entry.summary}")
