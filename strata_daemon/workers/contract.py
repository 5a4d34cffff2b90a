"""What a worker is and what it receives. A worker reaches the world through `Dependencies` and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Runtime, Stopping
from strata_daemon.leader.context import RunContext
from strata_daemon.leader.membership import Membership
from strata_daemon.ports.chunks import ChunkStore
from strata_daemon.ports.meta import Meta

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from strata_daemon.leader.session import Locker

__all__ = ["Dependencies", "RunContext", "Runner", "Worker"]


class Runner(Protocol):
    """What runs while the worker leads."""

    def run(self, ctx: RunContext) -> None:
        """Work until `ctx` says to return, then return promptly. An exception is counted, logged and backed off from.

        The lease is kept until `run` has returned; a runner that does not return inside STRATA_SHUTDOWN_WAIT once it
        was told makes the process leave with exit code 4.
        """
        ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The seed's seven (logger, meta, data, tracer, locker, region, emit_leader), and what ours needs besides.

    `emit_leader(worker, acquired)` never blocks. `settings` is the worker's own model. `members` is the last look at
    the node rows (fair share).
    """

    logger: logging.LoggerAdapter[logging.Logger]
    meta: Meta
    data: ChunkStore
    tracer: Tracer
    locker: Locker
    region: str
    emit_leader: Callable[[str, bool], None]
    settings: Any
    metrics: Metrics
    runtime: Runtime
    stopping: Stopping
    members: Callable[[], Membership]


@dataclass(frozen=True, slots=True)
class Worker:
    """A registered worker. `check(settings)` returns problems as sentences; it runs before any candidacy.

    `skip_lease`: the supervisor takes no lease, since the runner takes its own (a fan-out) or needs none.
    """

    name: str
    build: Callable[[Dependencies], Runner]
    skip_lease: bool = False
    settings_model: type[BaseModel] | None = None
    check: Callable[[Any], list[str]] | None = None
