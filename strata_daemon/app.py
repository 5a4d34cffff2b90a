"""The composition root: opens the stores, runs the daemon over them, and asks the stores what commands want to know.

The only module that sees `stores` besides the rest. `run` is the main thread's.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from strata_daemon.base import log
from strata_daemon.base.errors import ConfigError
from strata_daemon.base.findings import Finding, Grade, ok
from strata_daemon.base.runtime import Runtime
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.daemon import BUG, CLEAN, OVERSTAYED, PART_STOP_S, Daemon
from strata_daemon.http.boot import Boot
from strata_daemon.http.server import HttpServer
from strata_daemon.leader.store import Allowance
from strata_daemon.leader.timing import Timing
from strata_daemon.ports.stores import EmbeddedStores, Stores
from strata_daemon.settings import Settings, timing_problems
from strata_daemon.stores import checking
from strata_daemon.stores.opening import open_embedded, open_ring
from strata_daemon.workers import registry

STOPPED = 0  # what the stop thread puts where signals arrive
ENDED = -1  # what a part puts there that wants the process to stop
ONCE_LOOK_S = 0.02


def check_guard(settings: Settings, stores: Stores) -> None:
    """Raises ConfigError when the times of a lease do not fit with what the clocks cost, or when a deletion takes
    longer than any validity before a renewal: it would never start."""
    problems = lease_problems(settings, stores.lease_store.allowance(), stores.data.delete_time_s)
    if problems:
        raise ConfigError(problems)


def lease_problems(settings: Settings, allowance: Allowance, delete_time_s: float) -> list[str]:
    """What `check_guard` refuses, a sentence each."""
    timing = Timing(settings.lease_ttl_s, settings.lease_renew_s, settings.lease_stop_budget_s, allowance)
    problems = timing_problems(settings.lease_ttl_s, settings.lease_renew_s, settings.lease_stop_budget_s, allowance)
    if not problems and delete_time_s > timing.guard_limit_s:
        problems = [
            f"A deletion may take {delete_time_s:g} s, but only {timing.guard_limit_s:g} s are left for it before a"
            f" renewal (STRATA_LEASE_TTL {timing.ttl_s} s, STRATA_LEASE_RENEW {timing.renew_s:g} s,"
            f" STRATA_LEASE_STOP_BUDGET {timing.stop_budget_s:g} s): make the TTL longer, or the others shorter."
        ]
    return problems


def open_stores(settings: Settings, runtime: Runtime | None = None, *, read_only: bool = False) -> Stores:
    """Open the stores that the settings name; a context manager. Raises PreflightError, StoreUnavailable."""
    if settings.meta_backend != "cassandra":
        return open_lab(settings, runtime, read_only=read_only)
    return open_ring(
        settings.cassandra,
        settings.data_backend,
        settings.state_dir,
        settings.region,
        runtime or RealRuntime(),
        dual_write=settings.gc_dual_write,
        read_only=read_only,
    )


def open_lab(settings: Settings, runtime: Runtime | None = None, *, read_only: bool = False) -> EmbeddedStores:
    """Open the embedded stores, with objects to put and remove by hand. Raises PreflightError, ConfigError."""
    if settings.meta_backend == "cassandra":
        raise ConfigError(
            [
                "Objects can be put and removed by hand on the embedded store only: set STRATA_META_BACKEND to sqlite,"
                " or leave it out. On a Strata keyspace, use an S3 client with a gateway."
            ]
        )
    return open_embedded(
        settings.meta_backend,
        settings.data_backend,
        settings.state_dir,
        settings.region,
        runtime or RealRuntime(),
        read_only=read_only,
    )


def run(settings: Settings, *, once: bool = False, before_start: Callable[[EmbeddedStores], None] | None = None) -> int:
    """Run the daemon until a signal, or with `once` until each worker had its pass; the exit code.

    A second signal leaves at once with code 4: the leases are left to their TTL then.
    """
    workers = registry.resolve(settings.workers)
    runtime = RealRuntime()
    runtime.catch_signals(signal.SIGTERM, signal.SIGINT)
    if settings.meta_backend != "cassandra":
        with open_lab(settings, runtime) as embedded:
            check_guard(settings, embedded)
            daemon = Daemon(settings, workers, embedded, runtime, lambda: runtime.put_signal(ENDED), once=once)
            if before_start is not None:
                before_start(embedded)
            return _serve(daemon, runtime, once=once)
    if before_start is not None:
        open_lab(settings)
    http = HttpServer(settings.listen_host, settings.listen_port, runtime)
    with _open_patiently(settings, runtime, http) as stores:
        check_guard(settings, stores)
        daemon = Daemon(settings, workers, stores, runtime, lambda: runtime.put_signal(ENDED), once=once, http=http)
        return _serve(daemon, runtime, once=once)


def _open_patiently(settings: Settings, runtime: RealRuntime, http: HttpServer) -> Stores:
    """The stores of a ring that may not answer yet. A signal leaves with code 0: nothing has begun."""
    boot = Boot(runtime, http, lambda: open_stores(settings, runtime))
    boot.start(lambda: runtime.put_signal(STOPPED))
    if runtime.wait_signal() != STOPPED:
        boot.request_stop()
        log.logger("app").info("daemon stopped", extra={"code": CLEAN})
        # The thread may be inside the driver, which waits for nodes that do not answer.
        runtime.exit(CLEAN)
    if boot.failure is not None:
        http.request_stop()
        http.join(PART_STOP_S)
        raise boot.failure
    assert boot.opened is not None
    return boot.opened


def _serve(daemon: Daemon, runtime: RealRuntime, *, once: bool) -> int:
    """Start, wait for a signal, stop; the exit code."""
    runtime.on_crash = daemon.crashed
    daemon.start()
    while runtime.wait_signal(ONCE_LOOK_S if once else None) is None and not daemon.supervisor.is_done():
        pass
    codes: list[int] = []

    def stop() -> None:
        try:
            codes.append(daemon.stop())
        except BaseException as exc:  # the net at the top of this thread: the main thread waits for its answer
            daemon.crashed("stop", exc)
            codes.append(BUG)
        runtime.put_signal(STOPPED)

    runtime.spawn("stop", stop)
    while (received := runtime.wait_signal()) != STOPPED:
        if received != ENDED:
            runtime.exit(OVERSTAYED)
    if codes[0] != CLEAN:
        # A thread may still be inside: it must not see the interpreter end under it.
        runtime.exit(codes[0])
    return codes[0]


def check(settings: Settings) -> list[Finding]:
    """What of the world, and of how the settings fit it, a start would stumble over. In bounded time; raises nothing
    that the world can cause."""
    runtime = RealRuntime()
    allowance = Allowance(0.0, 0.0)
    findings: list[Finding] = []
    if settings.meta_backend == "cassandra":
        from strata_daemon.stores.cassandra.checking import check_ring  # late: it brings the driver

        findings, allowance = check_ring(settings.cassandra, runtime)
    elif settings.meta_backend == "sqlite":
        findings = checking.check_embedded(settings.state_dir, settings.region, runtime)
    chunks = checking.check_chunks(settings.data_backend, settings.state_dir, settings.region, runtime)
    said = {finding.says for finding in findings}
    findings += [finding for finding in chunks if finding.says not in said]  # a broken database is both's
    problems = lease_problems(settings, allowance, checking.delete_time_s(settings.data_backend))
    if not problems:
        times = f"TTL {settings.lease_ttl_s} s, renew {settings.lease_renew_s:g} s"
        skew = f" with {allowance.skew_s:.3g} s of skew" if allowance.skew_s else ""
        return [*findings, ok("lease times", f"{times}, stop budget {settings.lease_stop_budget_s:g} s fit{skew}.")]
    return findings + [Finding(Grade.FAIL, "lease times", problem, is_setting=True) for problem in problems]


def schema_text(settings: Settings, *, replication: str, with_strata: bool) -> str:
    """The CQL of our keyspace, and with `with_strata` of Strata's; `replication` "" for the one that fits."""
    _refuse_other_backend(settings)
    from strata_daemon.stores.cassandra.schema_commands import text

    return text(settings.cassandra, RealRuntime(), replication, with_strata=with_strata)


def apply_schema(settings: Settings, *, replication: str, with_strata: bool, say: Callable[[str], None]) -> None:
    """Make what is missing, a line for each. Raises PreflightError, StoreUnavailable."""
    _refuse_other_backend(settings)
    from strata_daemon.stores.cassandra.schema_commands import apply

    apply(settings.cassandra, RealRuntime(), replication, say, with_strata=with_strata)


def schema_differences(settings: Settings, *, with_strata: bool) -> list[str]:
    """A sentence for each difference. Raises PreflightError, StoreUnavailable."""
    _refuse_other_backend(settings)
    from strata_daemon.stores.cassandra.schema_commands import differences

    return differences(settings.cassandra, RealRuntime(), with_strata=with_strata)


def _refuse_other_backend(settings: Settings) -> None:
    if settings.meta_backend != "cassandra":
        raise ConfigError(
            [f"STRATA_META_BACKEND is {settings.meta_backend}, which has no schema to make: set it to cassandra."]
        )
