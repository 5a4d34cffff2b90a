"""`strata-daemon settings`: a settings file with every default; etc/strata-daemon.toml is its output."""

from __future__ import annotations

import textwrap

import click

HEAD = """\
# Settings of strata-daemon. Each is shown at its default, its meaning above it. Point STRATA_CONFIG_FILE or --config at
# a copy of this file. A flag wins over the STRATA_* variable, the variable over this file. Durations are in Go's
# notation: 500ms, 30s, 1h30m.
"""


@click.command(epilog="Example: strata-daemon settings > strata-daemon.toml")
def settings() -> None:
    """Print a settings file: every setting at its default, its meaning above it."""
    click.echo(sample_file(), nl=False)


def sample_file() -> str:
    """The text of etc/strata-daemon.toml, from the models. A setting without a fixed default is commented out."""
    from strata_daemon.settings import all_settings

    lines = [HEAD]
    table = ""
    for setting in sorted(all_settings(), key=lambda s: s.key.rpartition(".")[0]):
        where, _, key = setting.key.rpartition(".")
        if where != table:
            lines += [f"[{where}]", ""]
            table = where
        lines += textwrap.wrap(f"{setting.meaning} [{setting.env}]", 118, initial_indent="# ", subsequent_indent="# ")
        lines += [f"# {key} =" if setting.default is None else f"{key} = {_toml(setting.default)}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _toml(value: str | int | tuple[str, ...]) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
