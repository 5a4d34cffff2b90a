"""`check` and the start of `run` on real rings: what is right is said to be, what is wrong ends in one clear line."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from strata_daemon.stores.cassandra.schema import own_statements
from strata_daemon.stores.cassandra.strata_schema import NEEDED, TYPES, create_type
from tests.cassandra.kit.keyspaces import Keyspaces
from tests.cassandra.kit.superuser import superuser
from tests.process.kit import command
from tests.rings import DATA_CENTRE, LiveRing
from tests.rings import Ring as SecureRing

BOUND_S = 25.0  # 15 on a machine that has nothing else to do
STRATA, OWN = "strata", "strata_daemon"
REPLICATION = f"{{'class': 'NetworkTopologyStrategy', '{DATA_CENTRE}': '1'}}"
PASSWORD = "never-shown-48151623"
USERS = {
    "right": [f"GRANT {right} ON KEYSPACE {keyspace}" for right in ("SELECT", "MODIFY") for keyspace in (STRATA, OWN)],
    "reader": [f"GRANT SELECT ON KEYSPACE {STRATA}", f"GRANT SELECT ON KEYSPACE {OWN}"],
    "stranger": [],
    "blind": [f"GRANT SELECT ON KEYSPACE {STRATA}", f"GRANT MODIFY ON KEYSPACE {STRATA}"],
}


@pytest.fixture(scope="module")
def secured(secure_ring: SecureRing) -> dict[str, str]:
    """Settings, without their prefix, of the user who may do what the daemon needs; the keyspaces are there."""
    statements = [f"CREATE KEYSPACE IF NOT EXISTS {STRATA} WITH replication = {REPLICATION}"]
    statements += [create_type(STRATA, name) for name in TYPES]
    statements += [table.create(STRATA) for table in NEEDED]
    statements += own_statements(OWN, REPLICATION)
    for user, grants in USERS.items():
        statements.append(f"CREATE ROLE IF NOT EXISTS {user} WITH PASSWORD = '{PASSWORD}' AND LOGIN = true")
        statements += [f"{grant} TO {user}" for grant in grants]
    with superuser(secure_ring) as run:
        for statement in statements:
            run(statement)
    return {
        **{name.removeprefix("STRATA_"): value for name, value in secure_ring.environment.items()},
        "CASSANDRA_DC": DATA_CENTRE,
        "CASSANDRA_USER": "right",
        "CASSANDRA_PASSWORD": PASSWORD,
        "DATA_BACKEND": "memory",
    }


def checked(state: Path, **settings: str) -> tuple[int, list[dict[str, str]]]:
    """The exit code of `check --json`, and what it found. It wrote nothing else, and no password."""
    began = time.monotonic()
    done = command(state, "check", "--json", **settings)
    assert time.monotonic() - began < BOUND_S
    assert done.stderr == ""
    assert PASSWORD not in done.stdout
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode
    return done.returncode, list(report["findings"])


def failed(findings: list[dict[str, str]]) -> list[str]:
    return [each["says"] for each in findings if each["grade"] == "FAIL"]


def test_a_ring_that_is_right_passes_and_every_node_is_spoken_of(keyspaces: Keyspaces, tmp_path: Path) -> None:
    code, findings = checked(tmp_path, **keyspaces.environment())
    assert code == 0
    assert {each["grade"] for each in findings} == {"ok"}
    about = [each["about"] for each in findings]
    assert about.count("clock") == about.count("contact point") == len(keyspaces.ring.hosts)
    assert {"data centre", "version", "paxos", "keyspace", "replication", "schema", "rights", "levels"} <= set(about)
    assert about[-1] == "lease times"


def test_a_pipe_gets_lines_with_their_grade_in_front(keyspaces: Keyspaces, tmp_path: Path) -> None:
    done = command(tmp_path, "check", **keyspaces.environment())
    assert done.returncode == 0
    assert all(line.startswith("ok    ") for line in done.stdout.splitlines())


def test_nothing_is_left_behind_by_a_check(keyspaces: Keyspaces, tmp_path: Path) -> None:
    tables = [f"{keyspaces.strata}.{table.name}" for table in NEEDED]
    before = [keyspaces.client.run(f"SELECT * FROM {table}") for table in tables]
    checked(tmp_path, **keyspaces.environment())
    assert [keyspaces.client.run(f"SELECT * FROM {table}") for table in tables] == before
    assert not tmp_path.joinpath("data").exists()


def test_times_that_do_not_fit_what_a_ring_costs_are_a_matter_of_settings(keyspaces: Keyspaces, tmp_path: Path) -> None:
    """They fit without the ring's rounding and skew, so only a measurement can tell."""
    times = {"LEASE_TTL": "12s", "LEASE_RENEW": "5s", "LEASE_STOP_BUDGET": "0"}
    code, findings = checked(tmp_path, **keyspaces.environment(), **times)
    assert code == 2
    (sentence,) = failed(findings)
    assert "rounding 1s + skew 1s" in sentence


def test_a_node_that_hangs_is_named_and_the_rest_is_still_looked_at(
    keyspaces: Keyspaces, whole_ring: LiveRing, tmp_path: Path
) -> None:
    whole_ring.pause(3)
    code, findings = checked(tmp_path, **keyspaces.environment())
    assert code == 0, failed(findings)  # a majority answers
    warned = [each["says"] for each in findings if each["grade"] == "warn"]
    assert any(whole_ring.hosts[2] in says and "answer" in says for says in warned)
    assert {"levels", "schema", "own keyspace"} <= {each["about"] for each in findings}


def test_two_nodes_that_hang_cost_the_quorum_and_that_is_said(
    keyspaces: Keyspaces, whole_ring: LiveRing, tmp_path: Path
) -> None:
    whole_ring.pause(2)
    whole_ring.pause(3)
    code, findings = checked(tmp_path, **keyspaces.environment())
    assert code == 3
    assert any("LOCAL_SERIAL" in says or "rights" in says for says in failed(findings))


def test_contact_points_that_are_silent_or_gone_or_something_else_are_told_apart(tmp_path: Path) -> None:
    """No ring is needed: nothing there is one."""
    with ExitStack() as stack:
        silent, talker = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        free = socket.create_server(("127.0.0.1", 0))
        free.close()
        ports = [each.getsockname()[1] for each in (silent, talker)]
        gone = _free_port()
        stack.enter_context(_answering(talker))
        hosts = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]},127.0.0.1:{gone},no-such-host.invalid"
        code, findings = checked(tmp_path, META_BACKEND="cassandra", CASSANDRA_HOSTS=hosts, DATA_BACKEND="memory")
    assert code == 3
    assert failed(findings) == [
        f"127.0.0.1:{ports[0]} cannot be used: no answer within 2 s.",
        f"127.0.0.1:{ports[1]} cannot be used: something else than Cassandra answers on this port.",
        f"127.0.0.1:{gone} cannot be used: Connection refused.",
        next(says for says in failed(findings) if says.startswith("no-such-host.invalid:9042 cannot be used:")),
    ]


WRONG = {
    "password": ({"CASSANDRA_PASSWORD": f"{PASSWORD}-not"}, "refused the user right", "STRATA_CASSANDRA_PASSWORD"),
    "no login": ({"CASSANDRA_USER": ""}, "refused a login without a user", "STRATA_CASSANDRA_USER"),
    "data centre": ({"CASSANDRA_DC": "elsewhere"}, "no data centre elsewhere", DATA_CENTRE),
    "keyspace": ({"CASSANDRA_KEYSPACE": "nowhere"}, "no keyspace nowhere", "STRATA_CASSANDRA_KEYSPACE"),
    "own keyspace": ({"DAEMON_KEYSPACE": "fresh"}, "User right has no CREATE permission", "schema apply"),
    "not allowed to make ours": (
        {"DAEMON_KEYSPACE": "fresh", "DAEMON_SCHEMA_APPLY": "false"},
        "keyspace fresh does not exist",
        "STRATA_DAEMON_SCHEMA_APPLY is false",
    ),
    "no rights": ({"CASSANDRA_USER": "stranger"}, "no right to SELECT on the keyspace strata,", "GRANT SELECT"),
    "reads only": ({"CASSANDRA_USER": "reader"}, "no right to MODIFY on the keyspace strata,", "GRANT MODIFY"),
    "no rights on ours": ({"CASSANDRA_USER": "blind"}, "no right to SELECT on the keyspace strata_daemon,", "GRANT"),
    "no password file": ({"CASSANDRA_PASSWORD_FILE": "/no/such/file"}, "/no/such/file", "cannot be read"),
    "no CA file": ({"CASSANDRA_TLS_CA_FILE": "/no/such/file"}, "/no/such/file", "STRATA_CASSANDRA_TLS"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_what_no_repeat_can_mend_ends_both_check_and_run(case: str, secured: dict[str, str], tmp_path: Path) -> None:
    changes, *words = WRONG[case]
    settings = {**secured, **changes}
    code, findings = checked(tmp_path, **settings)
    assert code == 3
    assert any(all(word in says for word in words) for says in failed(findings)), failed(findings)
    ran = command(tmp_path, "run", **settings)
    assert ran.returncode == 3
    first = ran.stderr.splitlines()[0]
    assert first.startswith("strata-daemon: ")
    assert all(word in first for word in words), first
    assert PASSWORD not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr


def test_tls_with_a_wrong_ca_ends_both_check_and_run(
    secured: dict[str, str], secure_ring: SecureRing, tmp_path: Path
) -> None:
    settings = {**secured, "CASSANDRA_TLS_CA_FILE": str(secure_ring.wrong_ca_file)}
    code, findings = checked(tmp_path, **settings)
    assert code == 3
    (sentence,) = failed(findings)
    assert "TLS failed" in sentence and "STRATA_CASSANDRA_TLS_CA_FILE" in sentence
    ran = command(tmp_path, "run", **settings)
    assert ran.returncode == 3
    (line,) = ran.stderr.splitlines()
    assert "TLS with Cassandra" in line and "STRATA_CASSANDRA_TLS_CA_FILE" in line
    assert "Traceback" not in ran.stdout


def test_the_user_who_has_the_rights_passes_and_the_one_replica_is_warned_of(
    secured: dict[str, str], tmp_path: Path
) -> None:
    code, findings = checked(tmp_path, **secured)
    assert code == 0, failed(findings)
    assert [each["about"] for each in findings if each["grade"] == "warn"] == ["replication"]
    ran = command(tmp_path, "run", "--once", **secured)
    assert ran.returncode == 0, ran.stderr


def test_a_password_from_a_file_is_taken_without_its_line_end(secured: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    settings = {**secured, "CASSANDRA_PASSWORD": "wrong", "CASSANDRA_PASSWORD_FILE": str(file)}
    assert checked(tmp_path, **settings)[0] == 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def _answering(server: socket.socket) -> Iterator[None]:
    """A server that greets whoever comes, as a mail server does."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"220 mail.example.org ready\r\n")
            connection.recv(64)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    yield
    thread.join(10.0)
    assert not thread.is_alive()
