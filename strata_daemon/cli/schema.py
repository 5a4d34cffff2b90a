"""`strata-daemon schema`: the tables of the daemon's own keyspace as text, made, or compared. Main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from strata_daemon.cli import exits
from strata_daemon.cli.options import flags, setting_options

if TYPE_CHECKING:
    from strata_daemon.settings import Settings

SETTINGS = ("STRATA_CONFIG_FILE",)
with_strata = click.option(
    "--with-strata", is_flag=True, help="Strata's own keyspace and tables too: for labs and tests."
)


def _replication(_ctx: click.Context, _parameter: click.Parameter, written: str) -> str:
    from strata_daemon.base.cassandra_settings import read_replication
    from strata_daemon.base.knobs import BadValue

    try:
        return read_replication(written)
    except BadValue as exc:
        raise click.BadParameter(f"it must be {exc.allowed}.") from exc


replication = click.option(
    "--replication",
    metavar="MAP",
    default="",
    callback=_replication,
    help="Replication of a keyspace that is made, as a CQL map. Default: that of Strata's keyspace; where there is "
    "none, STRATA_CASSANDRA_REPLICATION, else up to three replicas in the local data centre.",
)


@click.group(
    epilog="Example: STRATA_META_BACKEND=cassandra STRATA_CASSANDRA_HOSTS=127.0.0.1 strata-daemon schema print"
)
def schema() -> None:
    """The tables of the daemon's own keyspace on Cassandra."""


@schema.command("print", epilog="Example: strata-daemon schema print | cqlsh 10.0.0.1")
@setting_options(SETTINGS)
@with_strata
@replication
def print_(with_strata: bool, replication: str, **options: Any) -> None:
    """Print the CQL that makes the keyspace.

    It may be run more than once.
    """
    from strata_daemon import app

    click.echo(app.schema_text(_settings(options), replication=replication, with_strata=with_strata), nl=False)


@schema.command(epilog="Example: strata-daemon schema apply --with-strata")
@setting_options(SETTINGS)
@with_strata
@replication
def apply(with_strata: bool, replication: str, **options: Any) -> None:
    """Make what is missing, a line for each step.

    May be called more than once, and by several at once.
    """
    from strata_daemon import app

    app.apply_schema(_settings(options), replication=replication, with_strata=with_strata, say=click.echo)


@schema.command(epilog="Example: strata-daemon schema check && echo right")
@setting_options(SETTINGS)
@with_strata
@click.pass_context
def check(ctx: click.Context, /, with_strata: bool, **options: Any) -> None:
    """Compare the ring with the CQL.

    Exit 0 when all is there, 3 with a sentence for each difference.
    """
    from strata_daemon import app

    found = app.schema_differences(_settings(options), with_strata=with_strata)
    for sentence in found:
        click.echo(sentence)
    if not found:
        click.echo("All tables are as they should be.")
    ctx.exit(exits.PREFLIGHT if found else exits.CLEAN)


def _settings(options: dict[str, Any]) -> Settings:
    from strata_daemon import settings
    from strata_daemon.cli.quiet import silence_libraries

    silence_libraries()
    return settings.load(flags(options)).settings
