"""The schema on a real ring: made by one of many, mended, compared, refused; and Strata's tables as gateways do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.cli import main
from strata_daemon.stores.cassandra import schema_steps
from strata_daemon.stores.cassandra.connect import connect
from strata_daemon.stores.cassandra.preflight import look_at_own, look_at_strata, refuse_unfit
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.schema import OWN_TABLES, VERSION
from strata_daemon.stores.cassandra.schema_lease import NAME
from strata_daemon.stores.cassandra.strata_schema import NEEDED, STRATA_TABLES, TYPES, create_type
from tests.cassandra.kit.keyspaces import Client, Keyspaces, Row
from tests.cassandra.kit.superuser import Run, superuser
from tests.process.kit import Daemons
from tests.rings import DATA_CENTRE
from tests.rings import Ring as SecureRing

AS_A_GATEWAY_MADE_IT = Path(__file__).parent / "vectors" / "schema.cql"
REPLICATION = f"{{'class': 'NetworkTopologyStrategy', '{DATA_CENTRE}': '1'}}"
numbers = count()


@pytest.fixture
def own(client: Client) -> Iterator[str]:
    """The name of a keyspace that is not there yet."""
    name = f"strata_test_new_{next(numbers)}"
    client.run(f"DROP KEYSPACE IF EXISTS {name}")
    yield name
    client.run(f"DROP KEYSPACE IF EXISTS {name}")


@contextmanager
def opened(keyspaces: Keyspaces, own: str, strata: str = "") -> Iterator[Ring]:
    settings = keyspaces.settings(own_keyspace=own, keyspace=strata or keyspaces.strata)
    ring = Ring(*connect(settings), settings, RealRuntime())
    try:
        yield ring
    finally:
        ring.close(5.0)


def columns(run: Run, keyspace: str) -> set[Row]:
    return set(
        run(
            "SELECT table_name, column_name, type, kind, position, clustering_order FROM system_schema.columns"
            " WHERE keyspace_name = %s",
            (keyspace,),
        )
    )


def versions(client: Client, own: str) -> list[Row]:
    return client.run(f"SELECT name, version FROM {own}.schema_version")


def test_stratas_tables_are_those_that_a_gateway_makes(
    secure_ring: SecureRing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names, types, keys, clustering orders and times to live, of every table. On one node, which makes them sooner."""
    theirs, ours, own = made = "strata_theirs", "strata_ours", "strata_ours_own"
    for name, value in {"STRATA_CASSANDRA_KEYSPACE": ours, "STRATA_DAEMON_KEYSPACE": own}.items():
        monkeypatch.setenv(name, value)
    for name, value in secure_ring.environment.items():
        monkeypatch.setenv(name, value)
    options = "SELECT table_name, default_time_to_live, gc_grace_seconds FROM system_schema.tables"
    with superuser(secure_ring) as run:
        run(f"CREATE KEYSPACE {theirs} WITH replication = {REPLICATION}")
        for statement in AS_A_GATEWAY_MADE_IT.read_text().replace("strata.", f"{theirs}.").split(";"):
            if statement.strip():
                run(statement)
        assert main.outcome(["schema", "apply", "--with-strata", "--replication", REPLICATION]) == 0
        assert len(capsys.readouterr().out.splitlines()) >= len(STRATA_TABLES) + len(OWN_TABLES)
        assert len(columns(run, theirs)) > 300
        assert columns(run, ours) == columns(run, theirs)
        of_ours, of_theirs = (set(run(f"{options} WHERE keyspace_name = %s", (name,))) for name in (ours, theirs))
        assert of_ours == of_theirs
        assert main.outcome(["schema", "apply", "--with-strata"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2  # both are complete: nothing is made again
        assert main.outcome(["schema", "check", "--with-strata"]) == 0
        for name in made:
            run(f"DROP KEYSPACE {name}")


def test_three_daemons_that_start_at_once_on_a_fresh_keyspace_all_come_up(
    keyspaces: Keyspaces, client: Client, daemons: Daemons, own: str, tmp_path: Path
) -> None:
    """Each table is made once: nodes that were told of it twice at once would know it by two ids."""
    settings = {**keyspaces.environment(), "DAEMON_KEYSPACE": own, "LEASE_TTL": "30s", "LEASE_RENEW": "10s"}
    started = [daemons.run(tmp_path / f"s{i}", **{**settings, "NODE_ID": f"node-{i}"}) for i in range(3)]
    for daemon in started:
        daemon.wait_said("daemon started", within_s=90.0)
    made = [line["step"] for daemon in started for line in daemon.said("own keyspace")]
    assert sorted(step for step in made if step.endswith("is made")) == sorted(
        f"table {own}.{table.name} is made" for table in OWN_TABLES
    )
    for daemon in started:
        daemon.stop(within_s=30.0)
    assert versions(client, own) == [("strata_daemon", VERSION)]
    assert keyspaces.holder(NAME) is None


def test_a_table_or_a_column_that_is_missing_is_made_by_the_next_start(
    keyspaces: Keyspaces, client: Client, own: str
) -> None:
    with opened(keyspaces, own) as ring:
        refuse_unfit(ring, may_apply=True)
    client.run(f"DROP TABLE {own}.signals")
    client.run(f"ALTER TABLE {own}.terms DROP reason")
    with opened(keyspaces, own) as ring:
        (finding,) = look_at_own(ring)
        assert "has no table signals; it has no column terms.reason: the next start adds that" in finding.says
        with pytest.raises(PreflightError, match="has no table signals and has no column terms.reason"):
            refuse_unfit(ring, may_apply=False)
        refuse_unfit(ring, may_apply=True)
    with opened(keyspaces, own) as ring:
        refuse_unfit(ring, may_apply=False)


def test_a_keyspace_that_may_not_be_made_is_refused_with_the_statements_that_make_it(
    keyspaces: Keyspaces, client: Client, own: str
) -> None:
    with opened(keyspaces, own) as ring, pytest.raises(PreflightError) as refused:
        refuse_unfit(ring, may_apply=False)
    sentence, _, cql = str(refused.value).partition("\n")
    assert own in sentence and "does not exist" in sentence and "strata-daemon schema apply" in sentence
    for statement in cql.split(";"):
        if statement.strip():
            client.run(statement)
    with opened(keyspaces, own) as ring:
        refuse_unfit(ring, may_apply=False)
        (finding,) = look_at_own(ring)
        assert finding.grade == "ok"


@pytest.mark.parametrize(("ahead", "grade"), [(1, "warn"), (2, "FAIL")])
def test_a_schema_one_version_ahead_is_worked_with_and_two_ahead_refused(
    ahead: int, grade: str, keyspaces: Keyspaces, client: Client
) -> None:
    """So that a rolling upgrade can be rolled back (design.md section 4)."""
    client.run(f"UPDATE {keyspaces.own}.schema_version SET version = {VERSION + ahead} WHERE name = 'strata_daemon'")
    try:
        with opened(keyspaces, keyspaces.own) as ring:
            (finding,) = look_at_own(ring)
            assert finding.grade == grade
            if grade == "FAIL":
                with pytest.raises(PreflightError, match="upgrade it"):
                    refuse_unfit(ring, may_apply=True)
            else:
                refuse_unfit(ring, may_apply=True)
        assert versions(client, keyspaces.own) == [("strata_daemon", VERSION + ahead)]
    finally:
        client.run(f"UPDATE {keyspaces.own}.schema_version SET version = {VERSION} WHERE name = 'strata_daemon'")


def test_a_start_waits_for_another_process_that_makes_the_schema(keyspaces: Keyspaces, own: str) -> None:
    """Here one that died at it: its lease runs out."""
    assert keyspaces.take(NAME, "schema/1/else", 4)
    said: list[str] = []
    with opened(keyspaces, own) as ring:
        schema_steps.make_own(ring, REPLICATION, said.append)
    assert said[0] == "waiting for another process (schema/1/else) that is at the schema"
    assert said[-1] == f"version {VERSION} of the schema is recorded"
    assert keyspaces.holder(NAME) is None


def test_a_lease_of_the_schema_that_never_ends_is_named_and_left_alone(
    keyspaces: Keyspaces, own: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_steps, "WAIT_S", 1.5)
    assert keyspaces.take(NAME, "schema/1/never", None)
    with opened(keyspaces, own) as ring, pytest.raises(StoreUnavailable, match="schema/1/never.*delete that row"):
        schema_steps.make_own(ring, REPLICATION)
    assert keyspaces.holder(NAME) == "schema/1/never"
    assert columns(client.run, own) == set()


def test_a_schema_whose_lease_was_lost_in_the_middle_is_not_gone_on_with(
    keyspaces: Keyspaces, own: str, client: Client
) -> None:
    """An operator took the row away, and another process has begun."""

    def disturb(step: str) -> None:
        if "lease_tokens" in step:
            holder = keyspaces.holder(NAME)
            assert holder is not None and keyspaces.release(NAME, holder)
            assert keyspaces.take(NAME, "schema/2/else", 60)

    with opened(keyspaces, own) as ring, pytest.raises(StoreUnavailable, match="was lost"):
        schema_steps.make_own(ring, REPLICATION, disturb)
    assert {row[0] for row in columns(client.run, own)} == {"schema_version", "lease_tokens"}
    assert keyspaces.holder(NAME) == "schema/2/else"


def test_a_replication_that_cassandra_refuses_ends_in_a_sentence(keyspaces: Keyspaces, own: str) -> None:
    with opened(keyspaces, own) as ring, pytest.raises(PreflightError, match="Cassandra refused `CREATE KEYSPACE"):
        schema_steps.make_own(ring, "{'class': 'NetworkTopologyStrategy', 'no_such_dc': '3'}")
    assert keyspaces.holder(NAME) is None


def test_an_old_keyspace_of_stratas_is_worked_with_and_a_broken_one_refused(
    keyspaces: Keyspaces, client: Client
) -> None:
    strata = "strata_test_old"
    client.run(f"DROP KEYSPACE IF EXISTS {strata}")
    client.run(f"CREATE KEYSPACE {strata} WITH replication = {REPLICATION}")
    try:
        for name in TYPES:
            client.run(create_type(strata, name))
        for table in NEEDED:
            client.run(table.base.create(strata))  # before any gateway added a column
        with opened(keyspaces, keyspaces.own, strata) as ring:
            keyspace, replication, schema = look_at_strata(ring)
            assert (keyspace.grade, replication.grade, schema.grade) == ("ok", "warn", "warn")
            assert "replication factor 1" in replication.says
            assert "buckets.shard_count_target" in schema.says
            refuse_unfit(ring, may_apply=False)
        client.run(f"ALTER TABLE {strata}.gc_queue DROP pool")
        client.run(f"DROP TABLE {strata}.worker_locks")
        with opened(keyspaces, keyspaces.own, strata) as ring, pytest.raises(PreflightError) as refused:
            refuse_unfit(ring, may_apply=False)
        assert "has no table worker_locks; it has no column gc_queue.pool" in str(refused.value)
    finally:
        client.run(f"DROP KEYSPACE {strata}")


def test_a_missing_keyspace_is_refused_with_those_that_look_like_it(keyspaces: Keyspaces) -> None:
    with opened(keyspaces, keyspaces.own, "no_such_keyspace") as ring, pytest.raises(PreflightError) as refused:
        refuse_unfit(ring, may_apply=True)
    assert re.search(r"no keyspace no_such_keyspace \(STRATA_CASSANDRA_KEYSPACE\)", str(refused.value))
    assert keyspaces.strata in str(refused.value)


def test_the_verbs_of_the_command_make_what_check_misses(
    keyspaces: Keyspaces, own: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**keyspaces.environment(), "DAEMON_KEYSPACE": own}.items():
        monkeypatch.setenv(f"STRATA_{name}", value)
    assert main.outcome(["schema", "check"]) == 3
    assert capsys.readouterr().out == f"The keyspace {own} does not exist.\n"
    assert main.outcome(["schema", "print"]) == 0
    printed = capsys.readouterr().out
    assert f"CREATE KEYSPACE IF NOT EXISTS {own} WITH replication = {{'class': 'NetworkTopologyStrategy'" in printed
    assert main.outcome(["schema", "apply"]) == 0
    assert f"table {own}.lease_tokens is made\n" in capsys.readouterr().out
    assert main.outcome(["schema", "check"]) == 0
    assert main.outcome(["schema", "apply"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"keyspace {own} has all tables"]
