"""Runs CQL statements on a ring by the driver, for the terminal. Starts and breaks nothing."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ring.errors import RingError
from ring.ring import Ring
from ring.statements import is_complete, split, table

TIMEOUT_S = 20.0  # a CREATE TABLE on a busy machine takes seconds


class Shell:
    """Statements on an open session of the driver. Get it by `opened`."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, text: str) -> Iterator[str]:
        """What each statement of `text` gives. Raises RingError at the first that fails."""
        for statement in split(text):
            yield self._run_one(statement)

    def prompt(self) -> None:
        """Ask for statements at the terminal until its end, or `exit`."""
        print("Statements end with a semicolon; exit or Ctrl-D leaves.")
        text = ""
        while True:
            try:
                text += input("cql> " if not text else "...> ") + "\n"
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                text = ""
                continue
            if text.strip().rstrip(";").lower() in ("exit", "quit"):
                return
            if not text.strip():
                text = ""
            elif is_complete(text):
                self._answer(text)
                text = ""

    def _answer(self, text: str) -> None:
        try:
            for answer in self.run(text):
                print(answer)
        except RingError as exc:
            print(exc)

    def _run_one(self, statement: str) -> str:
        from cassandra import DriverException, RequestExecutionException
        from cassandra.cluster import NoHostAvailable

        try:
            result = self._session.execute(statement)
            rows = list(result)
        except NoHostAvailable as exc:
            raise RingError(_no_host(exc)) from exc
        except (DriverException, RequestExecutionException) as exc:
            raise RingError(f"{type(exc).__name__}: {exc}") from exc
        return table(result.column_names, rows) if result.column_names else "done"


@contextmanager
def opened(ring: Ring, node: int | None, consistency: str) -> Iterator[Shell]:
    """A shell on the nodes that run, or on one of them."""
    try:
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import Cluster, NoHostAvailable
    except ImportError:
        raise RingError("cql needs the driver: .venv/bin/pip install cassandra-driver") from None
    logging.getLogger("cassandra").setLevel(logging.CRITICAL)  # its warnings repeat what the error says
    hosts = [ring.hosts[number - 1] for number in sorted(ring.pids) if node in (None, number)]
    if not hosts:
        raise RingError("no node runs there: `scripts/cassandra status` tells more.")
    cluster = Cluster(
        hosts,
        port=ring.port,
        auth_provider=PlainTextAuthProvider(*ring.login) if ring.login else None,
        ssl_context=ssl.create_default_context(cafile=str(ring.ca_file)) if ring.ca_file else None,
        execution_profiles=_profiles(hosts, consistency),
        connect_timeout=TIMEOUT_S,
    )
    try:
        yield Shell(cluster.connect())
    except NoHostAvailable as exc:
        raise RingError(_no_host(exc)) from exc
    finally:
        cluster.shutdown()


def _profiles(hosts: list[str], consistency: str) -> dict[Any, Any]:
    from cassandra import ConsistencyLevel
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile
    from cassandra.policies import WhiteListRoundRobinPolicy
    from cassandra.query import tuple_factory

    profile = ExecutionProfile(
        load_balancing_policy=WhiteListRoundRobinPolicy(hosts),
        consistency_level=ConsistencyLevel.name_to_value[consistency],
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=TIMEOUT_S,
        row_factory=tuple_factory,
    )
    return {EXEC_PROFILE_DEFAULT: profile}


def _no_host(exc: Any) -> str:
    causes = ", ".join(f"{host}: {cause}" for host, cause in exc.errors.items())
    return f"no node answered ({causes or exc})."
