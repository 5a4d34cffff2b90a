"""The command `strata-daemon`: which commands there are, and the net that turns an error into an exit code.

Commands are imported only when they are called, so that help and a wrong setting are answered at once. Main thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module

import click

from strata_daemon import __version__
from strata_daemon.base.errors import ConfigError, PreflightError, StoreUnavailable
from strata_daemon.cli import exits

# Each command: where it lives, and its line in the help (so that help imports none of them).
COMMANDS = {
    "check": ("strata_daemon.cli.check:check", "Look whether a start would go well, and say what would not."),
    "completion": ("strata_daemon.cli.completion:completion", "Print a completion script for a shell."),
    "lab": ("strata_daemon.cli.lab:lab", "Put, list, get and remove objects of the embedded store."),
    "run": ("strata_daemon.cli.run:run", "Run the daemon until it is told to stop."),
    "schema": ("strata_daemon.cli.schema:schema", "Print, make or compare the daemon's tables on Cassandra."),
    "settings": ("strata_daemon.cli.settings:settings", "Print a settings file with every default."),
    "status": ("strata_daemon.cli.status:status", "Show nodes, leases and the queue, from the store."),
    "workers": ("strata_daemon.cli.workers:workers", "List the workers that can be run."),
}


class LateCommands(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in sorted(COMMANDS.items())])


@click.group(
    cls=LateCommands,
    epilog="Exit codes: 0 clean, 1 a bug, 2 configuration or unknown worker, 3 the world is not fit to start in, "
    "4 a worker did not stop.",
)
@click.version_option(__version__, prog_name="strata-daemon")
def cli() -> None:
    """The background work of a Strata object store.

    Each command tells its options with --help. Settings are read from flags, STRATA_* variables and a TOML file.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code (design.md section 6). Never returns."""
    before = {thread.ident for thread in threading.enumerate()}
    exits.leave(outcome(arguments), before)


def outcome(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command: the fourth net of style.md section 4. Sentences go to stderr."""
    try:
        answer = cli.main(args=arguments, prog_name="strata-daemon", standalone_mode=False)
        return answer if isinstance(answer, int) else exits.CLEAN
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except ConfigError as exc:
        for problem in exc.problems:
            _say(problem)
        return exits.CONFIGURATION
    except (PreflightError, StoreUnavailable) as exc:
        _say(str(exc))
        return exits.PREFLIGHT
    except (KeyboardInterrupt, click.Abort):
        return exits.INTERRUPTED
    except BrokenPipeError:
        exits.silence_stdout()
        return exits.CLEAN
    except Exception as exc:
        return _bug(exc)


def _bug(exc: Exception) -> int:
    import traceback

    from strata_daemon.settings import wants_tracebacks

    _say(f"{type(exc).__name__}: {exc} (a bug; STRATA_LOG_LEVEL=debug shows where).")
    if wants_tracebacks():
        traceback.print_exception(exc)
    return exits.BUG


def _say(sentence: str) -> None:
    click.echo(f"strata-daemon: {sentence}", err=True)
