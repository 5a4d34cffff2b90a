"""How `check` judges what it was told: plain values in, findings out."""

from __future__ import annotations

import ssl

import pytest
from cassandra import AuthenticationFailed, OperationTimedOut, Unauthorized, Unavailable
from cassandra.cluster import NoHostAvailable

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.findings import Grade
from strata_daemon.stores.cassandra.connect import _meaning
from strata_daemon.stores.cassandra.errors import in_words, login_refusal, tls_refusal
from strata_daemon.stores.cassandra.rights import MODIFY, SELECT, VALUES, judge_rights, own_probes, strata_probes
from strata_daemon.stores.cassandra.schema import OWN_TABLES
from strata_daemon.stores.cassandra.skew import Offset
from strata_daemon.stores.cassandra.strata_schema import NEEDED
from strata_daemon.stores.cassandra.verdicts import (
    contact_findings,
    judge_clocks,
    level_findings,
    variant_finding,
    version_finding,
)

# The driver's own words, as a real ring made it say them.
BAD_LOGIN = AuthenticationFailed(
    "Failed to authenticate to 127.0.4.1:9042: Error from server: code=0100 [Bad credentials]"
    ' message="Provided username one and/or password are incorrect"'
)
NOT_LOOKED_UP = AuthenticationFailed(
    "Failed to authenticate to 127.0.4.1:9042: Error from server: code=0100 [Bad credentials]"
    ' message="Unable to perform authentication: Cannot achieve consistency level LOCAL_ONE"'
)
BAD_CERTIFICATE = PermissionError(
    1,
    "Tried connecting to [('127.0.4.1', 9042)]. Last error: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed:"
    " unable to get local issuer certificate (_ssl.c:1006)",
)
NO_TLS = PermissionError(
    1,
    "Tried connecting to [('127.0.0.1', 9042)]. Last error: [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c)",
)
REFUSED = ConnectionRefusedError(111, "Tried connecting to [('127.0.9.1', 9042)]. Last error: Connection refused")
NO_CREATE = Unauthorized(
    'Error from server: code=2100 [Unauthorized] message="User one has no CREATE permission on <all keyspaces>"'
)


def meaning(*by_node: Exception) -> Exception:
    errors = {f"127.0.0.{number}:9042": exc for number, exc in enumerate(by_node, 1)}
    settings = CassandraSettings.model_validate({"username": "one", "password": "secret-of-one"})
    return _meaning(NoHostAvailable("Unable to connect to any servers", errors), settings, [])


def test_a_contact_point_that_is_down_is_a_failure_only_when_none_answers() -> None:
    one, two = ("a", 9042), ("::1", 9043)
    some = contact_findings({one: None, two: "Connection refused"})
    assert [(each.grade, each.says) for each in some] == [
        (Grade.OK, "a:9042 answers."),
        (Grade.WARN, "[::1]:9043 cannot be used: Connection refused."),
    ]
    assert {each.grade for each in contact_findings({one: "x", two: "y"})} == {Grade.FAIL}


@pytest.mark.parametrize(
    ("ahead_s", "grade", "words"),
    [
        (0.2, Grade.OK, "0.200 s ahead of"),
        (-0.2, Grade.OK, "0.200 s behind"),
        (30.0, Grade.WARN, "synchronise"),
        (61.0, Grade.FAIL, "over 60 s gc deletes nothing"),
        (-61.0, Grade.FAIL, "over 60 s gc deletes nothing"),
    ],
)
def test_a_node_whose_clock_is_off_is_judged_by_how_far(ahead_s: float, grade: Grade, words: str) -> None:
    (finding,) = judge_clocks({"n": Offset(1000.0 + ahead_s, 0.001)}, 1000.0, [])
    assert finding.grade is grade
    assert words in finding.says


def test_clocks_that_are_apart_among_themselves_are_said_with_what_they_cost_each_lease() -> None:
    findings = judge_clocks({"a": Offset(1000.0, 0.0), "b": Offset(1000.9, 0.0)}, 1000.0, [])
    assert [each.grade for each in findings] == [Grade.OK, Grade.OK, Grade.WARN]
    assert "0.9 s apart" in findings[-1].says and "1.8 s of skew" in findings[-1].says
    assert len(judge_clocks({"a": Offset(0.0, 0.0), "b": Offset(0.4, 0.0)}, 0.0, [])) == 2


def test_a_clock_that_could_not_be_read_is_said() -> None:
    (finding,) = judge_clocks({}, 0.0, ["127.0.0.3:9042"])
    assert finding.grade is Grade.WARN and "127.0.0.3:9042" in finding.says


@pytest.mark.parametrize(
    ("told", "grade"),
    [({"5.0.9"}, Grade.OK), ({"4.1.6"}, Grade.OK), ({"5.0.9", "5.0.2"}, Grade.WARN), ({"3.11.5"}, Grade.WARN)],
)
def test_the_version_is_said_and_one_that_we_do_not_know_warned_of(told: set[str], grade: Grade) -> None:
    finding = version_finding(told)
    assert finding.grade is grade
    assert all(version in finding.says for version in told)


@pytest.mark.parametrize(
    ("told", "grade"),
    [({"v2"}, Grade.OK), ({"v1"}, Grade.WARN), ({"v1", "v2"}, Grade.WARN), (set(), Grade.OK)],
)
def test_the_slow_variant_of_paxos_is_warned_of(told: set[str], grade: Grade) -> None:
    assert variant_finding(told).grade is grade


def test_there_is_a_probe_for_each_right_on_each_table_that_changes_nothing() -> None:
    strata, own = strata_probes("s"), own_probes("o")
    assert {probe.table for probe in strata} == {each.name for each in NEEDED}
    assert len(own) == 2 * len(OWN_TABLES)
    for probe in strata + own:
        if probe.right == SELECT:
            assert probe.cql.startswith("SELECT ")
        else:
            assert probe.cql.endswith(" IF EXISTS")
            assert VALUES["text"] in probe.cql  # of a key that nobody uses
    assert not [probe for probe in strata_probes("s", only_reads=True) if probe.right == MODIFY]


def test_missing_rights_are_said_by_keyspace_with_the_statement_that_gives_them() -> None:
    probes = strata_probes("s")
    denied = {probe: NO_CREATE for probe in probes if probe.right == MODIFY}
    (finding,) = judge_rights(probes, denied, "one")
    assert finding.grade is Grade.FAIL
    assert finding.says == (
        "The user one has no right to MODIFY on the keyspace s, which the daemon needs."
        " Let a superuser run: GRANT MODIFY ON KEYSPACE s TO one;"
    )
    (finding,) = judge_rights(probes, {probes[0]: NO_CREATE}, "one")
    assert "to SELECT on s.worker_locks," in finding.says


def test_a_probe_without_an_answer_is_no_missing_right_but_a_level_that_does_not_work() -> None:
    probes = strata_probes("s")
    silent = {probe: OperationTimedOut() for probe in probes if probe.right == MODIFY}
    assert judge_rights(probes, silent, "one") == []
    read, serial = level_findings(probes, silent)
    assert (read.grade, serial.grade) == (Grade.OK, Grade.FAIL)
    assert "LOCAL_SERIAL" in serial.says and "no answer in time" in serial.says
    assert level_findings(probes, dict.fromkeys(probes, NO_CREATE)) == []


def test_a_few_tables_that_took_too_long_are_a_warning_unless_replicas_are_too_few() -> None:
    """One node that hangs costs some reads their time, until the others have noticed it."""
    probes = strata_probes("s")
    read = [probe for probe in probes if probe.right == SELECT]
    assert level_findings(probes, {read[0]: OperationTimedOut()})[0].grade is Grade.WARN
    assert level_findings(probes, dict.fromkeys(read[:4], OperationTimedOut()))[0].grade is Grade.FAIL
    too_few = Unavailable("", required_replicas=2, alive_replicas=1)
    found = level_findings(probes, {read[0]: OperationTimedOut(), read[1]: too_few})[0]
    assert found.grade is Grade.FAIL
    assert f"{read[1].name}: too few replicas alive (1 of 2 that are needed)" in found.says


def test_what_the_server_said_is_told_without_its_wrapping() -> None:
    assert in_words(NO_CREATE) == "User one has no CREATE permission on <all keyspaces>"
    assert in_words(REFUSED) == "Connection refused"


def test_the_tls_error_inside_the_drivers_own_is_found() -> None:
    assert tls_refusal(BAD_CERTIFICATE) == "unable to get local issuer certificate"
    assert tls_refusal(NO_TLS) == "wrong version number"
    assert tls_refusal(REFUSED) is None
    assert tls_refusal(ssl.SSLEOFError(8, "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred (_ssl.c:1)")) is None


def test_a_user_that_could_not_be_looked_up_is_not_a_refused_login() -> None:
    assert login_refusal(BAD_LOGIN) == "Provided username one and/or password are incorrect"
    assert login_refusal(NOT_LOOKED_UP) is None


@pytest.mark.parametrize(
    ("by_node", "ends", "words"),
    [
        ((BAD_LOGIN,), True, "STRATA_CASSANDRA_PASSWORD"),
        ((BAD_CERTIFICATE, BAD_CERTIFICATE), True, "STRATA_CASSANDRA_TLS_CA_FILE"),
        ((NO_TLS,), True, "wrong version number"),
        ((NOT_LOOKED_UP,), False, "Unable to perform authentication"),
        ((BAD_LOGIN, REFUSED), False, "Connection refused"),
        ((REFUSED, BAD_CERTIFICATE), False, "Connection refused"),
        ((ConnectionResetError(104, "Connection reset by peer"),), False, "nodes that want TLS"),
    ],
)
def test_a_start_is_given_up_only_when_every_node_refuses_for_good(
    by_node: tuple[Exception, ...], ends: bool, words: str
) -> None:
    told = meaning(*by_node)
    assert isinstance(told, PreflightError if ends else StoreUnavailable)
    assert words in str(told)
    assert "secret-of-one" not in str(told)
