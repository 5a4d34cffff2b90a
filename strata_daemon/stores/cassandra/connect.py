"""Makes the connection: profiles, policies and time-outs, each set on purpose, and what a refusal means.

`connect` tries once. A driver's Cluster that failed to connect is spent (cassandra-facts.md II 2.5), so each try makes
a new one; whoever repeats waits in between.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cassandra import AuthenticationFailed, UnresolvableContactPoints
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import tuple_factory

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.stores.cassandra.errors import causes, in_words, login_refusal, per_node, tls_refusal
from strata_daemon.stores.cassandra.statements import LEVEL, SERIAL_LEVEL

LEASE = "lease"
DDL = "ddl"
# The server gives up a contended conditional write after 1 s and an uncommitted one after 2 s: later than that there
# is nothing to wait for, and a try of ours is called unknown after 3 s at most.
LEASE_REQUEST_S = 3.0
# A node gives up a read after 5 s by itself. A thread that is told to stop must get out of its request and leave within
# STRATA_SHUTDOWN_WAIT, whatever STRATA_CASSANDRA_TIMEOUT allows.
BULK_REQUEST_MAX_S = 5.0
DDL_REQUEST_S = 30.0  # a busy ring needs more than 2.5 s for one table (cassandra-facts.md I.1)
# A silent node is found out by heartbeat + its time-out: with the driver's 30 s and 30 s a lease would be gone.
HEARTBEAT_S = 2
# The driver's own schedule ends for good after 64 attempts and grows to ten minutes (II 2.5).
RECONNECT_S = 1.0
CONNECT_S = 5.0
SCHEMA_AGREEMENT_S = 10
EXECUTORS = 4  # reconnects and re-prepares run there, and each may block on a silent node for CONNECT_S


def new_cluster(settings: CassandraSettings, connect_s: float = CONNECT_S) -> Any:
    """A driver's Cluster that has not connected yet. Raises PreflightError for files that cannot be read."""
    policy = TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=settings.local_dc), shuffle_replicas=False)

    def profile(request_timeout_s: float) -> ExecutionProfile:
        return ExecutionProfile(
            load_balancing_policy=policy,
            # The default policy sends a conditional write again on another node behind our back (II 2.2).
            retry_policy=FallthroughRetryPolicy(),
            consistency_level=LEVEL,
            serial_consistency_level=SERIAL_LEVEL,
            request_timeout=request_timeout_s,
            row_factory=tuple_factory,
        )

    user, password = settings.username, _password(settings)
    return Cluster(
        contact_points=[(host, port) for host, port in settings.hosts],
        port=settings.hosts[0][1],
        auth_provider=PlainTextAuthProvider(user, password) if user else None,
        ssl_context=tls_context(settings) if settings.is_tls else None,
        # Version 4 reports an undecided conditional write as a WriteTimeout; 5 as an error this driver has no class
        # for. Both are taken as unknown; 4 is what the gateways speak.
        protocol_version=int(settings.protocol),
        execution_profiles={
            EXEC_PROFILE_DEFAULT: profile(min(settings.timeout_s, BULK_REQUEST_MAX_S)),
            LEASE: profile(LEASE_REQUEST_S),
            DDL: profile(DDL_REQUEST_S),
        },
        compression=False,
        connect_timeout=connect_s,
        control_connection_timeout=connect_s,
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=HEARTBEAT_S,
        reconnection_policy=ConstantReconnectionPolicy(RECONNECT_S, max_attempts=None),
        max_schema_agreement_wait=SCHEMA_AGREEMENT_S,
        executor_threads=EXECUTORS,
        monitor_reporting_enabled=False,
    )


def connect(settings: CassandraSettings, connect_s: float = CONNECT_S) -> tuple[Any, Any, Any]:
    """The cluster with two sessions: one for leases, one for all else, each with connections of its own. `connect_s`:
    how long one node may take to be connected to.

    Raises StoreUnavailable when no node answers (worth another try), PreflightError when another try would end the
    same way: password, certificate, data centre.
    """
    try:
        cluster = new_cluster(settings, connect_s)
    except (UnresolvableContactPoints, UnicodeError) as exc:  # the driver looks names up at once
        names = ", ".join(host for host, _ in settings.hosts)
        raise StoreUnavailable(f"no name in STRATA_CASSANDRA_HOSTS is known ({names})") from exc
    try:
        with _unheard():
            # All nodes at once, since each one's clock is read next; a silent one costs `connect_s`, once.
            lease, bulk = cluster.connect(wait_for_all_pools=True), cluster.connect()
    except Exception as exc:
        data_centres = sorted({host.datacenter for host in cluster.metadata.all_hosts() if host.datacenter})
        cluster.shutdown()
        raise _meaning(exc, settings, data_centres) from exc
    # Plain writes get the time of the server; those that need a time of ours say so in the statement.
    lease.use_client_timestamp = bulk.use_client_timestamp = False
    data_centres = sorted({host.datacenter for host in cluster.metadata.all_hosts() if host.datacenter})
    if settings.local_dc not in data_centres:
        cluster.shutdown()
        raise wrong_data_centre(settings, data_centres)
    return cluster, lease, bulk


@contextmanager
def _unheard() -> Iterator[None]:
    """While the driver connects it logs each failure twice with its stack; whoever repeats says it once a minute."""
    driver = logging.getLogger("cassandra")
    before = driver.level
    driver.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        driver.setLevel(before)


def wrong_data_centre(settings: CassandraSettings, data_centres: list[str]) -> PreflightError:
    known = ", ".join(data_centres) or "none"
    return PreflightError(
        f"The ring has no data centre {settings.local_dc}, only {known}: set STRATA_CASSANDRA_DC to one of them."
    )


def _meaning(exc: Exception, settings: CassandraSettings, data_centres: list[str]) -> Exception:
    hosts = ", ".join(f"{host}:{port}" for host, port in settings.hosts)
    # Only when every node refuses: while one is merely away, another try may get in through it.
    said = [(login_refusal(why), tls_refusal(why)) for why in per_node(exc)]
    if all(login or tls for login, tls in said):
        return _refused(settings, hosts, *said[0])
    if data_centres and settings.local_dc not in data_centres:
        return wrong_data_centre(settings, data_centres)
    if isinstance(exc, NoHostAvailable | OSError) or any(isinstance(each, OSError) for each in causes(exc)):
        is_reset = any(isinstance(each, ConnectionResetError) for each in causes(exc))
        hint = "; nodes that want TLS end plain connections so" if is_reset and not settings.is_tls else ""
        return StoreUnavailable(f"no node of the Cassandra ring answers ({in_words(exc)}{hint})")
    if isinstance(exc, AuthenticationFailed):
        return StoreUnavailable(f"the Cassandra ring cannot look up the user: {in_words(exc)}")
    return StoreUnavailable(f"the Cassandra ring cannot be used: {in_words(exc)}")


def _refused(settings: CassandraSettings, hosts: str, login: str | None, tls: str | None) -> PreflightError:
    if login is None:
        return PreflightError(
            f"TLS with Cassandra at {hosts} failed: {tls}. Check STRATA_CASSANDRA_TLS_CA_FILE and the nodes'"
            " certificates, and whether the nodes speak TLS on this port."
        )
    who = f"the user {settings.username}" if settings.username else "a login without a user"
    return PreflightError(
        f"Cassandra at {hosts} refused {who}: {login}. Check STRATA_CASSANDRA_USER and STRATA_CASSANDRA_PASSWORD (or"
        " STRATA_CASSANDRA_PASSWORD_FILE)."
    )


def _password(settings: CassandraSettings) -> str:
    if settings.password_file is None:
        return settings.password
    try:
        return settings.password_file.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
        raise PreflightError(
            f"The password file {settings.password_file} (STRATA_CASSANDRA_PASSWORD_FILE) cannot be read: {reason}."
        ) from exc


def tls_context(settings: CassandraSettings) -> ssl.SSLContext:
    """Raises PreflightError for files that cannot be read."""
    try:
        context = ssl.create_default_context(cafile=str(settings.tls_ca_file) if settings.tls_ca_file else None)
        if settings.tls_cert_file and settings.tls_key_file:
            context.load_cert_chain(str(settings.tls_cert_file), str(settings.tls_key_file))
    except (OSError, ssl.SSLError) as exc:
        files = [f for f in (settings.tls_ca_file, settings.tls_cert_file, settings.tls_key_file) if f]
        raise PreflightError(
            f"A TLS file cannot be used ({', '.join(map(str, files))}): {getattr(exc, 'strerror', None) or exc}."
            " The STRATA_CASSANDRA_TLS_* settings name PEM files."
        ) from exc
    if settings.tls_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
