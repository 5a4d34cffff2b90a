"""Which workers there are, and how a chosen name becomes a Worker.

An entry names where the code lives, so a worker that nobody chose is never imported, and a wrong name is answered
before anything heavy is. Workers of other people are further entries; nothing here knows where entries come from.
Main thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from strata_daemon.base.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from strata_daemon.workers.contract import Worker


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a worker is found. Both places are "module:attribute"; `settings` None: the worker has no settings."""

    summary: str
    worker: str
    settings: str | None = None


Registry = Mapping[str, Entry]

BUILTIN: Registry = {
    "gc": Entry(
        "deletes the chunks of removed objects once their grace is over",
        worker="strata_daemon.workers.gc.worker:WORKER",
        settings="strata_daemon.workers.gc.settings:GCSettings",
    ),
}


def name_problems(names: Iterable[str], registry: Registry = BUILTIN) -> list[str]:
    """What is wrong with a choice of workers, one sentence each; imports nothing."""
    chosen = list(dict.fromkeys(names))
    known = ", ".join(sorted(registry))
    if not chosen:
        return [f"No workers are chosen; set STRATA_WORKERS or --workers to one or more of: {known}."]
    return [
        f"There is no worker {name!r} (STRATA_WORKERS or --workers); the known workers are: {known}."
        for name in chosen
        if name not in registry
    ]


def resolve(names: Iterable[str], registry: Registry = BUILTIN) -> list[Worker]:
    """The workers of these names, in order, each once; imports their code. Raises ConfigError with every problem."""
    chosen = list(dict.fromkeys(names))
    problems = name_problems(chosen, registry)
    if problems:
        raise ConfigError(problems)
    return [_load(registry[name].worker) for name in chosen]


def settings_models(registry: Registry = BUILTIN) -> dict[str, type[BaseModel]]:
    """Each worker's own settings model, by the worker's name; workers without settings are left out."""
    return {name: _load(entry.settings) for name, entry in registry.items() if entry.settings is not None}


def _load(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
