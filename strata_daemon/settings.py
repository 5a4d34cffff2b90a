"""STRATA_* names and a TOML file become frozen models here, and every check of a setting is made here.

A flag wins over the environment, the environment over the file, the file over the default; a blank variable counts as
absent. All problems are reported together, each with where its value came from. The only reader of the environment;
nothing here connects to anything. Main thread, once at start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from strata_daemon.base.cassandra_settings import CassandraSettings, read_boolean
from strata_daemon.base.errors import ConfigError
from strata_daemon.base.knobs import (
    Choice,
    Duration,
    Listen,
    Read,
    Setting,
    Text,
    read_listen,
    read_names,
    read_path,
    settings_of,
    write_duration,
)
from strata_daemon.base.sources import Found, Sources
from strata_daemon.leader.store import Allowance
from strata_daemon.leader.timing import TRIES, Timing
from strata_daemon.workers.registry import BUILTIN, Registry, name_problems, settings_models

EXACT = Allowance(0.0, 0.0)
M = TypeVar("M", bound=BaseModel)


class Settings(BaseModel):
    """What the daemon itself reads; a worker's own model comes from `worker`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: Annotated[
        tuple[str, ...],
        Read(read_names),
        Setting(
            "STRATA_WORKERS",
            "workers.enabled",
            None,
            "the list of workers",
            "Workers to run, as a list or with commas between the names. No default: `strata-daemon run` needs one or "
            "more.",
        ),
    ] = ()
    meta_backend: Annotated[
        str,
        Choice(("sqlite", "memory", "cassandra")),
        Setting(
            "STRATA_META_BACKEND",
            "meta_backend",
            "sqlite",
            "the metadata backend",
            "Where metadata and leases live: sqlite (files in the state folder), cassandra (a keyspace shared with "
            "Strata gateways) or memory (gone with the process).",
        ),
    ] = "sqlite"
    data_backend: Annotated[
        str,
        Choice(("dir", "memory")),
        Setting(
            "STRATA_DATA_BACKEND",
            "data_backend",
            "dir",
            "the chunk backend",
            "Where chunks live: dir (files in the state folder) or memory (gone with the process).",
        ),
    ] = "dir"
    state_dir: Annotated[
        Path,
        Read(read_path),
        Setting(
            "STRATA_STATE_DIR",
            "state_dir",
            None,
            "the state folder",
            "Folder of the embedded store. Default: /var/lib/strata-daemon for root, else strata-daemon in "
            "$XDG_STATE_HOME (~/.local/state).",
        ),
    ]
    listen: Annotated[
        Listen,
        Read(read_listen),
        Setting(
            "STRATA_DAEMON_LISTEN",
            "daemon_listen",
            "127.0.0.1:9321",
            "the address of the HTTP server",
            "Where health and metrics are served: host:port, [IPv6]:port, :port for every IPv4 address, port 0 for a "
            "free one, or off.",
        ),
    ] = Listen("127.0.0.1", 9321)
    node_id: Annotated[
        str,
        Text(200, without="/"),
        Setting(
            "STRATA_NODE_ID",
            "node.id",
            None,
            "the node id",
            "Name of this process in the node table and in its leases. Default: <hostname>-strata-daemon.",
        ),
    ]
    region: Annotated[
        str,
        Text(200),
        Setting("STRATA_REGION", "region", "strata-local", "the region", "Region whose gc queue is worked on."),
    ] = "strata-local"
    gc_dual_write: Annotated[
        bool,
        Read(read_boolean),
        Setting(
            "STRATA_GC_DUAL_WRITE",
            "workers.gc.dual_write",
            "true",
            "the choice to write the old gc queue too",
            "Cassandra only: whether the gateways keep the old table gc_queue beside the new ones. Must be the same "
            "here as there.",
        ),
    ] = True
    shutdown_wait_s: Annotated[
        float,
        Duration(0.1, 3600),
        Setting(
            "STRATA_SHUTDOWN_WAIT",
            "shutdown_wait",
            "20s",
            "the time to stop",
            "How long workers may take to return once they are told to stop; one that takes longer makes the process "
            "leave with exit code 4.",
        ),
    ] = 20.0
    lease_ttl_s: Annotated[
        int,
        Duration(1, 3600, whole_seconds=True),
        Setting(
            "STRATA_LEASE_TTL",
            "lease.ttl",
            "30s",
            "the TTL of a lease",
            "How long a lease stands without renewal, in whole seconds; a crash is taken over after that time. It must "
            "be at least renew + 3 tries of min(3s, TTL / 7) + stop budget.",
        ),
    ] = 30
    lease_renew_s: Annotated[
        float,
        Duration(0.05, 3600),
        Setting("STRATA_LEASE_RENEW", "lease.renew", "10s", "the renewal period", "Pause between two renewals."),
    ] = 10.0
    lease_poll_s: Annotated[
        float,
        Duration(0.05, 3600),
        Setting(
            "STRATA_LEASE_POLL",
            "lease.poll",
            "5s",
            "the poll period",
            "How often a lease that somebody else holds is looked at, for holders that signal no release.",
        ),
    ] = 5.0
    lease_stop_budget_s: Annotated[
        float,
        Duration(0, 3600, zero=0.0),
        Setting(
            "STRATA_LEASE_STOP_BUDGET",
            "lease.stop_budget",
            "2s",
            "the stop budget",
            "How long before its lease ends a worker stops to trust it, so that what is under way ends in time.",
        ),
    ] = 2.0
    log_level: Annotated[
        str,
        Choice(("debug", "info", "warn", "error")),
        Setting(
            "STRATA_LOG_LEVEL",
            "logging.level",
            "info",
            "the log level",
            "The least level that is logged: debug, info, warn or error.",
        ),
    ] = "info"
    log_format: Annotated[
        str,
        Choice(("auto", "json", "text")),
        Setting(
            "STRATA_LOG_FORMAT",
            "logging.format",
            "auto",
            "the log format",
            "json (one object a line), text (for people), or auto: text on a terminal, else json.",
        ),
    ] = "auto"
    cassandra: CassandraSettings = Field(default_factory=CassandraSettings, repr=False)
    by_worker: dict[str, Any] = Field(default_factory=dict, repr=False)

    @property
    def listen_host(self) -> str:
        """Empty when HTTP is off."""
        return self.listen.host

    @property
    def listen_port(self) -> int | None:
        """None when HTTP is off, 0 for any free port."""
        return self.listen.port

    def worker(self, name: str) -> Any:
        """A worker's own frozen model (GCSettings for "gc"); None for a worker without settings."""
        return self.by_worker.get(name)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings that passed every check, and sentences on what looks like a mistake but stops nothing."""

    settings: Settings
    warnings: tuple[str, ...]


def load(
    flags: Mapping[str, str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    fallbacks: Mapping[str, str] | None = None,
    needs_workers: bool = False,
    registry: Registry = BUILTIN,
) -> Loaded:
    """Read every setting. `flags` and `fallbacks` (what stands in for a default) go by STRATA_* name; `needs_workers`
    also refuses a missing or unknown worker.

    Raises ConfigError with all problems at once.
    """
    env = os.environ if environ is None else environ
    sources = Sources(flags or {}, env, fallbacks)
    problems = sources.problems
    models = settings_models(registry)
    settings, refused = _build(Settings, sources, _derived(env))
    cassandra, refused_cassandra = _build(CassandraSettings, sources, {})
    by_worker, problems_by_worker = {}, []
    for name, model in models.items():
        by_worker[name], errors = _build(model, sources, {})
        problems_by_worker += list(errors.values())
    problems += [*refused.values(), *refused_cassandra.values(), *problems_by_worker]
    if settings.meta_backend == "cassandra" and not refused_cassandra:
        problems += cassandra.problems()
    if not refused.keys() & {"lease_ttl_s", "lease_renew_s", "lease_stop_budget_s"}:
        problems += timing_problems(settings.lease_ttl_s, settings.lease_renew_s, settings.lease_stop_budget_s)
    if needs_workers and "workers" not in refused:
        problems += name_problems(settings.workers, registry)
    if problems:
        raise ConfigError(problems)
    known = all_settings(registry)
    return Loaded(
        settings.model_copy(update={"cassandra": cassandra, "by_worker": by_worker}), tuple(sources.warnings(known))
    )


def all_settings(registry: Registry = BUILTIN) -> list[Setting]:
    """Every setting that has a key in the file: the daemon's, then each worker's."""
    every: list[type[BaseModel]] = [Settings, CassandraSettings, *settings_models(registry).values()]
    return [setting for model in every for setting in settings_of(model).values()]


def timing_problems(ttl_s: int, renew_s: float, stop_budget_s: float, allowance: Allowance = EXACT) -> list[str]:
    """Whether a lease can be kept at all with these times, in seconds (design.md section 4, faults.md 62).

    `allowance` is the store's, 0 and 0 for the embedded ones. At most one sentence.
    """

    def timing(for_ttl_s: int) -> Timing:
        return Timing(for_ttl_s, renew_s, stop_budget_s, allowance)

    def fits(for_ttl_s: int) -> bool:
        return timing(for_ttl_s).needed_s <= for_ttl_s + 1e-9

    if fits(ttl_s):
        return []
    enough_s = next(seconds for seconds in range(ttl_s + 1, 10**6) if fits(seconds))
    ttl = f"The TTL of a lease (STRATA_LEASE_TTL) is {write_duration(ttl_s)}"
    advice = (
        f"raise the TTL to {write_duration(enough_s)} or more, or lower STRATA_LEASE_RENEW and STRATA_LEASE_STOP_BUDGET"
    )
    if renew_s >= ttl_s:
        return [
            f"{ttl}, but the renewal period (STRATA_LEASE_RENEW) is {write_duration(renew_s)}, so a lease would end "
            f"before its first renewal; {advice}."
        ]
    return [
        f"{ttl}, but it must be at least {timing(ttl_s).needed_s:.3g}s = renew {renew_s:g}s (STRATA_LEASE_RENEW) + "
        f"{TRIES} tries x {timing(ttl_s).attempt_s:.3g}s + rounding {allowance.rounding_s:g}s + skew "
        f"{allowance.skew_s:g}s + stop budget {stop_budget_s:g}s (STRATA_LEASE_STOP_BUDGET); {advice}."
    ]


def wants_tracebacks() -> bool:
    """Whether the environment asks for the debug level: for an error that comes before settings are read."""
    return os.environ.get("STRATA_LOG_LEVEL", "").strip().lower() == "debug"


def _derived(environ: Mapping[str, str]) -> dict[str, Found]:
    """The defaults that depend on the machine, by field."""
    if os.geteuid() == 0:
        state = "/var/lib/strata-daemon"
    else:
        state = f"{environ.get('XDG_STATE_HOME') or '~/.local/state'}/strata-daemon"
    return {
        "state_dir": Found(state, "the default of STRATA_STATE_DIR"),
        "node_id": Found(f"{os.uname().nodename}-strata-daemon", "the default of STRATA_NODE_ID"),
    }


def _build(model: type[M], sources: Sources, derived: Mapping[str, Found]) -> tuple[M, dict[str, str]]:
    """The model as far as its values can be used, and a sentence for each field that cannot."""
    settings = settings_of(model)
    found = {name: at for name, s in settings.items() if (at := sources.find(s) or derived.get(name)) is not None}
    try:
        return model.model_validate({name: at.written for name, at in found.items()}), {}
    except ValidationError as exc:
        allowed = {str(error["loc"][0]): error["msg"] for error in exc.errors(include_url=False)}
    sentences = {name: _sentence(settings[name], found[name], words) for name, words in allowed.items()}
    usable = {name: at.written for name, at in found.items() if name not in sentences}
    stand_ins = {"state_dir": "/", "node_id": "unnamed"}  # never used: the caller raises
    usable |= {name: value for name, value in stand_ins.items() if name in sentences}
    return model.model_validate(usable), sentences


def _sentence(setting: Setting, found: Found, allowed: str) -> str:
    shown = repr(found.written)
    shown = shown if len(shown) <= 100 else f"{shown[:100]}..."
    default = "" if setting.default is None else f", or leave it out for {setting.default}"
    title = setting.title[0].upper() + setting.title[1:]
    return f"{title} is {shown} ({found.where}), but it must be {allowed}; correct it{default}."
