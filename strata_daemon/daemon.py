"""The parts of a running process: built in one visible list, started, and stopped in the reverse order.

Takes no decisions; those are the parts'. What the stores are, and when to start and stop, is `app`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opentelemetry import trace
from prometheus_client import generate_latest

from strata_daemon.base import log
from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime import Runtime, Stopping, Thread
from strata_daemon.http.metrics import StateCollector
from strata_daemon.http.readiness import Readiness
from strata_daemon.http.server import HttpServer, build_app
from strata_daemon.leader.session import Locker
from strata_daemon.leader.timer import LeaseTimer
from strata_daemon.leader.timing import Timing
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.ports.shared_settings import SharedSettings
from strata_daemon.ports.stores import Stores
from strata_daemon.settings import Settings
from strata_daemon.supervision.agreement import Agreement
from strata_daemon.supervision.depth import DepthGauge
from strata_daemon.supervision.heartbeat import HeartbeatPublisher
from strata_daemon.supervision.snapshot import Beat, SnapshotSource
from strata_daemon.supervision.supervisor import Stuck, Supervisor
from strata_daemon.supervision.watchdog import Watchdog
from strata_daemon.workers import intents
from strata_daemon.workers.contract import Dependencies, Worker

CLEAN, BUG, OVERSTAYED = 0, 1, 4
BEAT_LIMIT_S = 5.0  # the lease timer and the watchdog turn at least each second
HEARTBEAT_LIMIT_S = 30.0  # a row has run out by then
RELEASE_S = 1.5  # beyond the wait, for the last try of a release
PART_STOP_S = 2.0  # for a part that only has to notice; the workers have STRATA_SHUTDOWN_WAIT


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
        if isinstance(self._stores.meta, EmbeddedMeta):
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
