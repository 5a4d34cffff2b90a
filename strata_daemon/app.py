"""The composition root: opens the stores, builds the parts in one visible list, stops them in the reverse order.

Takes no decisions; those are the parts'. The only module that sees both `stores` and the rest. `run` is the main
thread's.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from opentelemetry import trace
from prometheus_client import generate_latest

from strata_daemon.base import log
from strata_daemon.base.errors import ConfigError
from strata_daemon.base.findings import Finding, Grade, ok
from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Runtime, Stopping, Thread
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.http.boot import Boot
from strata_daemon.http.metrics import StateCollector
from strata_daemon.http.readiness import Readiness
from strata_daemon.http.server import HttpServer, build_app
from strata_daemon.leader.session import Locker
from strata_daemon.leader.store import Allowance
from strata_daemon.leader.timer import LeaseTimer
from strata_daemon.leader.timing import Timing
from strata_daemon.ports.shared_settings import SharedSettings
from strata_daemon.settings import Settings, timing_problems
from strata_daemon.stores import checking
from strata_daemon.stores.opening import EmbeddedStores, Stores, open_embedded, open_ring
from strata_daemon.supervision.agreement import Agreement
from strata_daemon.supervision.depth import DepthGauge
from strata_daemon.supervision.heartbeat import HeartbeatPublisher
from strata_daemon.supervision.snapshot import Beat, SnapshotSource
from strata_daemon.supervision.supervisor import Stuck, Supervisor
from strata_daemon.supervision.watchdog import Watchdog
from strata_daemon.workers import intents, registry
from strata_daemon.workers.contract import Dependencies, Worker

CLEAN, BUG, OVERSTAYED = 0, 1, 4
BEAT_LIMIT_S = 5.0  # the lease timer and the watchdog turn at least each second
HEARTBEAT_LIMIT_S = 30.0  # a row has run out by then
RELEASE_S = 1.5  # beyond the wait, for the last try of a release
PART_STOP_S = 2.0  # for a part that only has to notice; the workers have STRATA_SHUTDOWN_WAIT
STOPPED = 0  # what the stop thread puts where signals arrive
ENDED = -1  # what a part puts there that wants the process to stop
ONCE_LOOK_S = 0.02


class Daemon:
    """The parts of one process. `on_end` is called, from any thread, when the process should stop by itself."""

    def __init__(
        self,
        settings: Settings,
        workers: Sequence[Worker],
        stores: Stores,
        runtime: Runtime,
        on_end: Callable[[], None],
        *,
        once: bool = False,
        http: HttpServer | None = None,
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._runtime = runtime
        self._on_end = on_end
        self._once = once
        self._log = log.logger("app")
        self._code = CLEAN
        self._stopping = Stopping(runtime.event())
        self._metrics = Metrics()
        self._http = http or HttpServer(settings.listen_host, settings.listen_port, runtime)
        self.heartbeat = HeartbeatPublisher(
            runtime,
            stores.meta.nodes,
            node_id=settings.node_id,
            address=self._http.address,
            workers=settings.workers,
            metrics=self._metrics,
        )
        self.timer = LeaseTimer(
            runtime,
            stores.lease_store,
            Timing(settings.lease_ttl_s, settings.lease_renew_s, settings.lease_stop_budget_s),
            poll_s=settings.lease_poll_s,
            shutdown_wait_s=settings.shutdown_wait_s,
            node_id=self.heartbeat.node_id,
            metrics=self._metrics,
            log=log.logger("leader"),
        )
        self._locker = Locker(
            runtime,
            self.timer,
            self.heartbeat.members,
            poll_s=settings.lease_poll_s,
            shutdown_wait_s=settings.shutdown_wait_s,
        )
        self.supervisor = Supervisor(runtime, workers, self._dependencies, once=once)
        self._watchdog = Watchdog(
            runtime,
            self.timer.handles,
            self.threads,
            lambda: self._end(OVERSTAYED),
            shutdown_wait_s=settings.shutdown_wait_s,
            log=self._log,
        )
        self._agreement = self._agree(stores.shared_settings)
        depth = DepthGauge(
            runtime,
            stores.meta.gc_queue,
            settings.region,
            lambda error: self._log.warning("queue depth not read", extra={"error": error}),
        )
        self.snapshot = SnapshotSource(
            runtime=runtime,
            node_id=self.heartbeat.node_id,
            workers=self.supervisor.states,
            handles=self.timer.handles,
            threads=self.threads,
            timer_beat_at=lambda: self.timer.beat_at,
            beats=lambda: [
                Beat("heartbeat", self.heartbeat.beat_at, HEARTBEAT_LIMIT_S),
                Beat("watchdog", self._watchdog.beat_at, BEAT_LIMIT_S),
            ],
            depth=depth.read,
        )
        self._metrics.registry.register(
            StateCollector(self.snapshot.look, lambda: runtime.wall().timestamp(), settings.region)
        )

    def _agree(self, shared: SharedSettings | None) -> Agreement | None:
        """Where nodes of several machines share a store, and this one runs gc."""
        gc = self._settings.worker("gc")
        if shared is None or gc is None or "gc" not in self._settings.workers:
            return None
        return Agreement(
            self._runtime,
            shared,
            self._stores.meta.nodes,
            node_id=self.heartbeat.node_id,
            started_at=self.heartbeat.started_at,
            gc_shards=gc.shards,
        )

    def _start_http(self) -> None:
        readiness = Readiness(self._runtime, self._stores.probes)
        beat_limit_s = min(BEAT_LIMIT_S, self._settings.lease_ttl_s)
        self._http.start(
            build_app(
                lambda: self.snapshot.look().problems(beat_limit_s),
                readiness.unready,
                lambda: generate_latest(self._metrics.registry),
            )
        )

    def _dependencies(self, worker: Worker) -> Dependencies:
        return Dependencies(
            logger=log.logger(worker.name),
            meta=self._stores.meta,
            data=self._stores.data,
            tracer=trace.get_tracer("strata_daemon"),
            locker=self._locker,
            region=self._settings.region,
            emit_leader=self.heartbeat.emit,
            settings=self._settings.worker(worker.name),
            metrics=self._metrics,
            runtime=self._runtime,
            stopping=self._stopping,
            members=self.heartbeat.members,
        )

    def threads(self) -> list[Thread]:
        """Every supervised thread: none of them may end before the stop."""
        parts = [self.timer.thread, self.heartbeat.thread, self._watchdog.thread, self._http.thread]
        if self._agreement is not None:
            parts.append(self._agreement.thread)
        return [thread for thread in parts if thread is not None] + list(self.supervisor.threads)

    def start(self) -> None:
        """Start the parts; the workers last, since they need the others."""
        if isinstance(self._stores, EmbeddedStores):
            intents.replay(self._stores.meta, self._stores.data, self._runtime)
        self.timer.start()
        self.heartbeat.start()
        self._watchdog.start()
        if self._agreement is not None:
            self._agreement.start()
        self._start_http()
        self.supervisor.start()
        self._log.info(
            "daemon started", extra={"node": self.heartbeat.node_id(), "workers": ",".join(self._settings.workers)}
        )

    def crashed(self, thread: str, exc: BaseException) -> None:
        """A thread died: the process must not go on without it (faults.md 22)."""
        self._log.error("thread died", extra={"thread": thread}, exc_info=exc)
        self._end(BUG)

    def _end(self, code: int) -> None:
        self._code = self._code or code
        self._on_end()

    def stop(self) -> int:
        """Stop the parts, the workers first; the exit code. Takes at most STRATA_SHUTDOWN_WAIT and a few seconds."""
        self._log.info("daemon stopping")
        self.heartbeat.drop_workers(PART_STOP_S)
        self._locker.stop_by(self._runtime.now() + self._settings.shutdown_wait_s)
        self._stopping.set()
        stuck = self.supervisor.join(self._settings.shutdown_wait_s + RELEASE_S)
        for each in stuck:
            self._tell_stuck(each)
        self._watchdog.request_stop()
        self._watchdog.join(PART_STOP_S)
        if self._agreement is not None:
            self._agreement.request_stop()
            self._agreement.join(PART_STOP_S)
        self.heartbeat.close(PART_STOP_S)
        self.timer.request_stop()
        self.timer.join(PART_STOP_S)
        self._http.request_stop()
        self._http.join(PART_STOP_S)
        code = OVERSTAYED if stuck else self._code
        self._log.info("daemon stopped", extra={"code": code})
        return code

    def _tell_stuck(self, stuck: Stuck) -> None:
        fields = {"thread": stuck.thread, "waited_s": self._settings.shutdown_wait_s, "stack": stuck.stack}
        self._log.error("worker did not stop", extra=fields)


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
    findings += checking.check_chunks(settings.data_backend, settings.state_dir, settings.region, runtime)
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
