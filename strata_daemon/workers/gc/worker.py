"""The gc worker: a fan-out over `gc-leader-<i>`, slot i owning the logical shards s with s mod N = i."""

from __future__ import annotations

from strata_daemon.leader.fanout import Fanout
from strata_daemon.leader.slots import FanoutParts
from strata_daemon.workers.contract import Dependencies, Runner, Worker
from strata_daemon.workers.gc.drain import GCDrain
from strata_daemon.workers.gc.settings import WORKER as NAME
from strata_daemon.workers.gc.settings import GCSettings


def build(deps: Dependencies) -> Runner:
    """A fan-out takes its own leases, so the supervisor takes none for it."""
    settings: GCSettings = deps.settings
    parts = FanoutParts(
        worker=NAME,
        slots=settings.shards,
        runtime=deps.runtime,
        locker=deps.locker,
        emit=deps.emit_leader,
        members=deps.members,
        stopping=deps.stopping,
        metrics=deps.metrics,
        log=deps.logger,
    )
    return Fanout(parts, GCDrain(deps, settings))


WORKER = Worker(name=NAME, build=build, skip_lease=True, settings_model=GCSettings)
