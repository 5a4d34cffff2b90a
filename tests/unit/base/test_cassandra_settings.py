"""The settings of a connection to a ring: hosts as people write them, names that cannot say more than a name."""

from __future__ import annotations

from typing import Any

import pytest

from strata_daemon import settings
from strata_daemon.base.cassandra_settings import CassandraSettings, read_hosts, read_keyspace
from strata_daemon.base.errors import ConfigError
from strata_daemon.base.knobs import BadValue

RING = {"STRATA_META_BACKEND": "cassandra"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a", [("a", 9042)]),
        ("127.0.0.1,127.0.0.2 , 127.0.0.3", [("127.0.0.1", 9042), ("127.0.0.2", 9042), ("127.0.0.3", 9042)]),
        ("a:9142,b", [("a", 9142), ("b", 9042)]),
        ("::1", [("::1", 9042)]),
        ("[::1]", [("::1", 9042)]),
        ("[fe80::2]:19042,a", [("fe80::2", 19042), ("a", 9042)]),
        (["a", "b:1"], [("a", 9042), ("b", 1)]),
        ("a,a,,a:9042", [("a", 9042)]),
    ],
)
def test_hosts_are_read_as_people_write_them(written: Any, read: list[tuple[str, int]]) -> None:
    assert list(read_hosts(written)) == read


@pytest.mark.parametrize("written", ["a:0", "a:99999", "a:x", "[::1", "[::1]9042", "cql://a", "u@a", "a b", ":9042", 7])
def test_hosts_that_cannot_be_are_refused(written: Any) -> None:
    with pytest.raises(BadValue, match="a list of (host|names)"):
        read_hosts(written)


@pytest.mark.parametrize("written", ["", "Strata", "1st", "a-b", 'a"', "a.b", "a;DROP", "a" * 49, None])
def test_a_keyspace_is_a_plain_name(written: Any) -> None:
    with pytest.raises(BadValue):
        read_keyspace(written)


def _problem(**environ: str) -> str:
    with pytest.raises(ConfigError) as refused:
        settings.load({}, {**RING, **environ})
    (problem,) = refused.value.problems
    return problem


def test_a_certificate_without_its_key_is_refused() -> None:
    assert "STRATA_CASSANDRA_TLS_KEY_FILE" in _problem(STRATA_CASSANDRA_TLS_CERT_FILE="/c.pem")


def test_one_keyspace_for_both_is_refused() -> None:
    assert "keyspace of its own" in _problem(STRATA_DAEMON_KEYSPACE="strata")


def test_a_candidate_outside_the_data_centre_of_all_candidates_is_refused() -> None:
    assert "run it in that data centre" in _problem(STRATA_CASSANDRA_DC="east", STRATA_LEASE_DC="west")


def test_settings_of_a_ring_do_not_matter_to_the_embedded_store() -> None:
    assert settings.load({}, {"STRATA_DAEMON_KEYSPACE": "strata"}).settings.meta_backend == "sqlite"


def test_a_password_is_in_no_text_of_the_settings() -> None:
    loaded = settings.load({}, {**RING, "STRATA_CASSANDRA_PASSWORD": "s3cret!"}).settings
    assert loaded.cassandra.password == "s3cret!"
    assert "s3cret" not in repr(loaded) and "s3cret" not in repr(loaded.cassandra) and "s3cret" not in str(loaded)


@pytest.mark.parametrize(
    "name", ["STRATA_CASSANDRA_TLS_CA_FILE", "STRATA_CASSANDRA_TLS_SKIP_VERIFY", "STRATA_CASSANDRA_TLS_CERT_FILE"]
)
def test_any_setting_of_tls_turns_it_on(name: str) -> None:
    environ = {name: "true" if name.endswith("VERIFY") else "/a.pem", "STRATA_CASSANDRA_TLS_KEY_FILE": ""}
    if name.endswith("CERT_FILE"):
        environ["STRATA_CASSANDRA_TLS_KEY_FILE"] = "/k.pem"
    assert settings.load({}, {**RING, **environ}).settings.cassandra.is_tls
    assert not CassandraSettings().is_tls
