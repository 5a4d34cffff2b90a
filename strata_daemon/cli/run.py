"""`strata-daemon run`: settings, workers, then the daemon. Decides nothing else. Main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from strata_daemon.base.errors import ConfigError
from strata_daemon.cli.options import flags, setting_options

if TYPE_CHECKING:
    from strata_daemon.settings import Loaded

# So that chunks are seen to go within seconds; whatever is set wins.
SAMPLE_DEFAULTS = {"STRATA_GC_GRACE": "3s", "STRATA_GC_INTERVAL": "2s"}


@click.command(epilog="Example: STRATA_GC_GRACE=1m strata-daemon run --workers gc --state-dir ./state")
@setting_options()
@click.option("--once", is_flag=True, help="One pass under each lease that is free soon, then exit.")
@click.option("--sample", is_flag=True, help="First put and remove real files, so that there is something to collect.")
@click.pass_context
def run(ctx: click.Context, /, once: bool, sample: bool, **options: Any) -> None:
    """Run the chosen workers until SIGTERM or SIGINT; a second signal leaves at once."""
    loaded = load(options, sample=sample)
    # Late, since it brings the stores and the HTTP server: every problem above is answered without them.
    from strata_daemon import app
    from strata_daemon.base import log

    log.setup(loaded.settings.log_level, loaded.settings.log_format)
    logger = log.logger("settings")
    for warning in loaded.warnings:
        logger.warning("setting looks wrong", extra={"problem": warning})
    from strata_daemon.cli.sample import load_sample

    ctx.exit(app.run(loaded.settings, once=once, before_start=load_sample if sample else None))


def load(options: dict[str, Any], *, sample: bool = False) -> Loaded:
    """Settings whose workers exist and agree to them. Raises ConfigError with every problem."""
    from strata_daemon import settings
    from strata_daemon.workers import registry

    loaded = settings.load(flags(options), fallbacks=SAMPLE_DEFAULTS if sample else None, needs_workers=True)
    problems = [
        problem
        for worker in registry.resolve(loaded.settings.workers)
        if worker.check is not None
        for problem in worker.check(loaded.settings.worker(worker.name))
    ]
    if problems:
        raise ConfigError(problems)
    return loaded
