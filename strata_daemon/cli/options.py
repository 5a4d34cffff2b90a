"""The options that several commands share: each is a setting by another name, and wins over the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from strata_daemon.base.sources import FLAGS

F = TypeVar("F", bound=Callable[..., Any])

MEANINGS = {
    "STRATA_CONFIG_FILE": ("PATH", "TOML file with settings."),
    "STRATA_WORKERS": ("NAMES", "Workers to run, with commas between them."),
    "STRATA_STATE_DIR": ("PATH", "Folder of the embedded store."),
    "STRATA_DAEMON_LISTEN": ("ADDRESS", "host:port of health and metrics, or off."),
    "STRATA_NODE_ID": ("NAME", "Name of this process in the node table."),
    "STRATA_LOG_LEVEL": ("LEVEL", "debug, info, warn or error."),
    "STRATA_LOG_FORMAT": ("FORMAT", "auto, json or text."),
}

# What a command that only looks into the store takes.
STORE_SETTINGS = ("STRATA_CONFIG_FILE", "STRATA_STATE_DIR")


def setting_options(names: tuple[str, ...] = tuple(FLAGS)) -> Callable[[F], F]:
    """Add the flag of each setting; its value reaches the command under the setting's own name, lower case."""

    def add(function: F) -> F:
        for name in reversed(names):
            metavar, meaning = MEANINGS[name]
            option = click.option(FLAGS[name], name.lower(), metavar=metavar, help=f"{meaning} [{name}]")
            function = option(function)
        return function

    return add


def flags(options: Mapping[str, Any]) -> dict[str, str | None]:
    """The flags among a command's options, as `settings.load` takes them."""
    return {name: options.get(name.lower()) for name in FLAGS}
