"""Workers for the simulation that do as they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from strata_daemon.leader.context import RunContext
from strata_daemon.workers.contract import Dependencies, Runner, Worker

Script = Callable[[RunContext, Dependencies], None]


@dataclass
class ScriptedRunner:
    """Announces each build, run and return; runs `script`, by default until told to stop."""

    name: str
    script: Script | None = None
    build_s: float = 0.0
    fail_build: bool = False
    built_at: list[float] = field(default_factory=list)
    ran_at: list[float] = field(default_factory=list)
    left_at: list[float] = field(default_factory=list)
    tokens: list[int | None] = field(default_factory=list)

    def worker(self, *, skip_lease: bool = False) -> Worker:
        return Worker(name=self.name, build=self._build, skip_lease=skip_lease)

    def _build(self, deps: Dependencies) -> Runner:
        self.built_at.append(deps.runtime.now())
        if self.build_s:
            deps.stopping.wait(self.build_s)
        if self.fail_build:
            raise ValueError("cannot be built")
        return _Run(self, deps)


@dataclass
class _Run:
    told: ScriptedRunner
    deps: Dependencies

    def run(self, ctx: RunContext) -> None:
        self.told.ran_at.append(self.deps.runtime.now())
        self.told.tokens.append(ctx.token)
        try:
            if self.told.script is not None:
                self.told.script(ctx, self.deps)
            else:
                while not ctx.wait(1.0):
                    ctx.check()
        finally:
            self.told.left_at.append(self.deps.runtime.now())


def crash(_ctx: RunContext, _deps: Dependencies) -> None:
    raise RuntimeError("told to crash")


def hang(_ctx: RunContext, deps: Dependencies) -> None:
    """Never returns, whatever it is told."""
    deps.runtime.event().wait(None)
