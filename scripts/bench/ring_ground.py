"""The ring that figures are measured on: started at the first use, ended at the end, with the tables in it.

STRATA_BENCH_CASSANDRA=host,host,host names a ring that runs already. Its nodes are not ours to stop, so what needs that
fails there instead of being left out. Main thread.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent
from cassandra.policies import ConstantReconnectionPolicy, DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.query import SimpleStatement
from processes import PRODUCT, Failed, settings_for, timed

SCRIPTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS))

from ring import Ring  # noqa: E402
from ring.room import free_base  # noqa: E402

HOSTS = "STRATA_BENCH_CASSANDRA"
KEYSPACE, OWN_KEYSPACE = "strata_bench", "daemon_bench"
NODES = 3
CQL_PORT, STORAGE_PORT = 9042, 7000
# Loopback addresses that neither a user's own ring (127.0.0.1) nor those of the tests need.
BASES = ("127.0.4.1", "127.0.61.1", "127.0.62.1", "127.0.63.1")
SCHEMA_S = 300.0
REQUEST_S = 30.0
HEARTBEAT_S = 5  # a paused node is found out before it spoils what comes next, one that is merely slow is kept
TRIES, PAUSE_S = 5, 3.0


class Ground:
    """A context manager. Nothing is started before `session`, `hosts` or `settings` is asked for."""

    def __init__(self, folder: Path, say: Callable[[str], None], *, is_quick: bool = False) -> None:
        self._folder = folder
        self._is_quick = is_quick
        self._say = say
        self._lock: IO[str] | None = None
        self._ring: Ring | None = None
        self._hosts: list[str] = []
        self._session: Any = None
        self._data_centre = ""
        self._problem = ""

    def __enter__(self) -> Ground:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._session is not None:
                self._session.cluster.shutdown()
            if self._ring is not None and self._ring.exists:
                self._ring.stop(wipe=True)
        finally:
            if self._lock is not None:
                self._lock.close()

    @property
    def session(self) -> Any:
        """At LOCAL_QUORUM and LOCAL_SERIAL, rows as named tuples; its statements time out after 30 s."""
        if self._session is None:
            self._open()
        return self._session

    @property
    def hosts(self) -> str:
        """As STRATA_CASSANDRA_HOSTS wants it, each with its port."""
        if self._session is None:
            self._open()
        return ",".join(self._hosts)

    @property
    def data_centre(self) -> str:
        if self._session is None:
            self._open()
        return self._data_centre

    @property
    def is_ours(self) -> bool:
        return not os.environ.get(HOSTS)

    @property
    def ring(self) -> Ring:
        """For breaking nodes. Raises Failed on a ring that is not ours."""
        if not self.is_ours:
            raise Failed(
                f"NOT MEASURED: this stops or ends nodes, which it may not do to the ring of {HOSTS}; leave that out,"
                " so that a ring is started for the bench"
            )
        if self._session is None:
            self._open()
        assert self._ring is not None
        return self._ring

    def settings(self, state: Path, **settings: str) -> dict[str, str]:
        """Those of a daemon on this ring; keywords are STRATA_* names without their prefix, and win."""
        ring = {
            "META_BACKEND": "cassandra",
            "CASSANDRA_HOSTS": self.hosts,
            "CASSANDRA_DC": self.data_centre,
            "CASSANDRA_KEYSPACE": KEYSPACE,
            "DAEMON_KEYSPACE": OWN_KEYSPACE,
            "DATA_BACKEND": "memory",
        }
        return settings_for(state, **(ring | settings))

    def execute(self, cql: str, values: tuple[object, ...] = (), **options: Any) -> Any:
        """One statement that is not prepared, so that it can be told from a daemon's."""
        return self.session.execute(SimpleStatement(cql), values, **options)

    def repeat(self, cql: str, values: tuple[object, ...] = ()) -> Any:
        """As `execute`, for what may be sent again. Raises Failed when it fails each time."""
        return self.gather([(SimpleStatement(cql), values)])[0]

    def empty(self) -> None:
        """Without queues, leases and nodes of what was measured before, tombstones of the queues included."""
        for keyspace in (KEYSPACE, OWN_KEYSPACE):
            for table in self.session.cluster.metadata.keyspaces[keyspace].tables:
                if table.startswith("gc_"):
                    self.repeat(f"TRUNCATE {keyspace}.{table}")
        # What daemons that were killed left, which would else stand for its TTL.
        for row in self.repeat(f"SELECT name FROM {KEYSPACE}.worker_locks"):
            self.repeat(f"DELETE FROM {KEYSPACE}.worker_locks WHERE name = %s IF EXISTS", (row.name,))
        for row in self.repeat(f"SELECT node_id FROM {KEYSPACE}.cluster_nodes"):
            self.repeat(f"DELETE FROM {KEYSPACE}.cluster_nodes WHERE node_id = %s", (row.node_id,))

    def gather(self, requests: Sequence[tuple[Any, tuple[Any, ...]]], in_flight: int = 32) -> list[Any]:
        """Statements with their values, all at once, each for what may be sent again; the rows of each, in order."""
        answers: dict[int, Any] = {}
        left = list(range(len(requests)))
        for number in range(1, TRIES + 1):
            sent = [requests[index] for index in left]
            results = execute_concurrent(self.session, sent, concurrency=in_flight, raise_on_first_error=False)
            answers |= {index: rows for index, (is_good, rows) in zip(left, results, strict=True) if is_good}
            failures = [exc for is_good, exc in results if not is_good]
            left = [index for index in left if index not in answers]
            if not left:
                break
            if number == TRIES:
                raise Failed(f"{len(left)} of {len(requests)} statements failed {TRIES} times: {failures[0]}")
            time.sleep(PAUSE_S)
        return [answers[index] for index in range(len(requests))]

    def mend(self) -> None:
        """Wake and start whatever was broken, and wait until all nodes see each other."""
        if self._ring is None:
            return
        for node in self._ring.status():
            if node.fate.name == "PAUSED":
                self._ring.resume(node.number)
        self._ring.up()
        self._ring.wait()

    def _open(self) -> None:
        """Once: where it failed, the next figure learns so at once."""
        if self._problem:
            raise Failed(self._problem)
        try:
            self._prepare()
        except Exception as exc:  # the driver's errors have no common base
            self._problem = f"no ring to measure on: {exc}"
            raise Failed(self._problem) from exc

    def _prepare(self) -> None:
        named = os.environ.get(HOSTS)
        began = time.monotonic()
        if named:
            self._say(f"ring: the one of {HOSTS} ({named}); what stops nodes cannot be measured there and FAILS")
            self._hosts = [host if ":" in host else f"{host}:{CQL_PORT}" for host in named.split(",")]
        else:
            self._start()
        self._session = self._connect()
        timed([*PRODUCT, "schema", "apply", "--with-strata"], self.settings(self._folder), within_s=SCHEMA_S)
        self._session.cluster.refresh_schema_metadata()
        self._say(f"ring: {NODES} nodes with their tables after {time.monotonic() - began:.0f} s")

    def _start(self) -> None:
        """One ring a project folder: the lock says whether what lies there belongs to a bench that runs."""
        home = self._folder.parent / "bench-ring"
        home.mkdir(parents=True, exist_ok=True)
        self._lock = (home.parent / "bench-ring.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(f"another bench uses the ring in {home}: wait for its end") from None
        ring = Ring.open(home, say=lambda line: self._say(f"ring: {line}"))
        if ring.exists:
            self._say(f"ring: ending the one that a killed bench left in {home}")
            ring.stop(wipe=True)
        self._ring = ring
        # Real nodes run with the optimizing compiler: a slower start, and a faster ring some minutes later.
        ring.up(
            nodes=NODES,
            base_ip=free_base(BASES, NODES, (CQL_PORT, STORAGE_PORT)),
            jit="quick" if self._is_quick else "full",
        )
        self._hosts = [f"{host}:{ring.port}" for host in ring.hosts]

    def _connect(self) -> Any:
        points = [host.rpartition(":") for host in self._hosts]
        self._data_centre = _data_centre(points[0][0], int(points[0][2]))
        profile = ExecutionProfile(
            load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=self._data_centre)),
            consistency_level=ConsistencyLevel.LOCAL_QUORUM,
            serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
            request_timeout=REQUEST_S,
        )
        cluster = Cluster(
            [host for host, _, _ in points],
            port=int(points[0][2]),
            protocol_version=4,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            idle_heartbeat_interval=HEARTBEAT_S,
            idle_heartbeat_timeout=HEARTBEAT_S,
            reconnection_policy=ConstantReconnectionPolicy(1.0, max_attempts=None),
            monitor_reporting_enabled=False,
        )
        return cluster.connect()


def _data_centre(host: str, port: int) -> str:
    profile = ExecutionProfile(load_balancing_policy=DCAwareRoundRobinPolicy())
    cluster = Cluster([host], port=port, protocol_version=4, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    try:
        return str(cluster.connect().execute("SELECT data_center FROM system.local").one().data_center)
    finally:
        cluster.shutdown()
