"""`strata-daemon check`: what a start would stumble over, each in a sentence. Main thread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from strata_daemon.cli import exits
from strata_daemon.cli.options import STORE_SETTINGS, flags, setting_options

if TYPE_CHECKING:
    from rich.console import Console

    from strata_daemon.base.findings import Finding

COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "bold red"}


@click.command(epilog="Example: strata-daemon check --json | jq .exit_code")
@setting_options(STORE_SETTINGS)
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@click.pass_context
def check(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """Look at everything that a start needs, and change nothing.

    Exit 0 when a start would go well, 2 when settings do not fit, 3 when the world is not fit.
    """
    from strata_daemon import app, settings
    from strata_daemon.base.findings import warn
    from strata_daemon.cli.quiet import silence_libraries

    silence_libraries()
    loaded = settings.load(flags(options))
    findings = [warn("setting", warning) for warning in loaded.warnings] + app.check(loaded.settings)
    code = exit_code(findings)
    if as_json:
        shown = [{"grade": each.grade.value, "about": each.about, "says": each.says} for each in findings]
        click.echo(json.dumps({"findings": shown, "exit_code": code}, indent=2))
    else:
        show(findings)
    ctx.exit(code)


def exit_code(findings: Sequence[Finding]) -> int:
    """As a start would leave: it looks at the world before it knows whether the times fit the clocks."""
    from strata_daemon.base.findings import failures

    failed = failures(findings)
    if not failed:
        return exits.CLEAN
    return exits.CONFIGURATION if all(each.is_setting for each in failed) else exits.PREFLIGHT


def show(findings: Sequence[Finding], console: Console | None = None) -> None:
    """A line each: to be searched through in a pipe, in columns and colour on a terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = console or Console()
    if not console.is_terminal:
        for each in findings:
            click.echo(f"{each.grade.value:<4}  {each.about}: {each.says}", file=console.file)
        return
    table = Table.grid(padding=(0, 2))
    for each in findings:
        grade = f"[{COLOURS[each.grade.value]}]{each.grade.value}[/]"
        table.add_row(grade, escape(each.about), escape(each.says))
    console.print(table)
