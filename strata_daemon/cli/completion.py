"""`strata-daemon completion`: a script that makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(epilog='Example: eval "$(strata-daemon completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a completion script, as in: source <(strata-daemon completion bash)."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"there is no completion for {shell}")
    root = ctx.find_root()
    click.echo(kind(root.command, {}, "strata-daemon", "_STRATA_DAEMON_COMPLETE").source())
