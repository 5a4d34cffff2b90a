"""A node's files and command say what its options ask for, and only that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ring import Options, RingError, command, config
from ring.tls import Certificates

CERTIFICATES = Certificates(Path("/ring/tls"))


def yaml(options: Options, number: int = 1) -> dict[str, Any]:
    """Each line is a key and JSON."""
    lines = config.cassandra_yaml(options, number, CERTIFICATES).splitlines()
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines)}


def flags(options: Options, number: int = 1) -> list[str]:
    found = [Path("/jars/jamm-0.4.0.jar"), Path("/jars/other.jar")]
    return command.command(Path("/jvm/bin/java"), found, Path("/ring/node1"), options, number)


def test_each_node_has_its_address_and_knows_all_as_seeds() -> None:
    values = yaml(Options(nodes=3, base_ip="127.0.9.254", port=1000, storage_port=2000), 3)
    assert values["listen_address"] == values["rpc_address"] == "127.0.10.0"
    assert (values["native_transport_port"], values["storage_port"]) == (1000, 2000)
    assert values["seed_provider"][0]["parameters"] == [{"seeds": "127.0.9.254,127.0.9.255,127.0.10.0"}]


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_tokens_are_apart_evenly_and_none_is_the_smallest(nodes: int) -> None:
    tokens = [config.token(number, nodes) for number in range(1, nodes + 1)]
    steps = {later - earlier for earlier, later in zip(tokens, tokens[1:], strict=False)}
    assert len(steps) < 3
    assert max(steps, default=0) - min(steps, default=0) <= 1
    assert -(1 << 63) < tokens[0] <= tokens[-1] < 1 << 63


def test_paxos_is_v2_unless_told() -> None:
    assert yaml(Options())["paxos_variant"] == "v2"
    assert yaml(Options(paxos="v1"))["paxos_variant"] == "v1"


def test_a_setting_replaces_adds_or_removes_a_line() -> None:
    settings = ("paxos_variant=v1", "internode_tcp_user_timeout=3000ms", "concurrent_reads=4", "auto_snapshot=")
    values = yaml(Options(settings=settings))
    assert values["paxos_variant"] == "v1"
    assert values["internode_tcp_user_timeout"] == "3000ms"
    assert values["concurrent_reads"] == 4
    assert "auto_snapshot" not in values
    assert "internode_tcp_user_timeout" not in yaml(Options())


def test_auth_and_tls_are_off_unless_told() -> None:
    assert not {"authenticator", "authorizer", "client_encryption_options"} & yaml(Options()).keys()
    values = yaml(Options(auth=True, tls=True))
    assert values["authenticator"] == "PasswordAuthenticator"
    assert values["authorizer"] == "CassandraAuthorizer"
    assert values["client_encryption_options"]["keystore"] == "/ring/tls/node.pem"
    assert values["client_encryption_options"]["optional"] is False


def test_every_node_holds_the_roles() -> None:
    assert "-Dcassandra.system_auth.default_rf=5" in flags(Options(nodes=5))


def test_the_class_path_and_the_main_class_go_last() -> None:
    assert flags(Options())[-3:] == [
        "-cp",
        "/ring/node1/conf:/jars/jamm-0.4.0.jar:/jars/other.jar",
        "org.apache.cassandra.service.CassandraDaemon",
    ]
    assert "-javaagent:/jars/jamm-0.4.0.jar" in flags(Options())


def test_the_heap_is_as_asked() -> None:
    assert {"-Xms512M", "-Xmx512M"} <= set(flags(Options()))
    assert {"-Xms1G", "-Xmx1G"} <= set(flags(Options(heap="1G")))


def test_jmx_is_off_unless_told_and_has_a_port_for_each_node() -> None:
    assert not [flag for flag in flags(Options()) if "jmx.local" in flag]
    assert "-Dcassandra.jmx.local.port=7200" in flags(Options(jmx=7199), 2)


def test_flags_from_the_caller_do_not_reach_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx64G")
    monkeypatch.setenv("LANG", "C")
    assert "JAVA_TOOL_OPTIONS" not in command.environment()
    assert command.environment()["LANG"] == "C"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nodes": 0}, "at least one node"),
        ({"paxos": "v3"}, "paxos is v2 or v1"),
        ({"jit": "slow"}, "jit is quick or full"),
        ({"heap": "much"}, "a heap is given like 512M"),
        ({"port": 70000}, "the port 70000 is none"),
        ({"base_ip": "localhost"}, "is no IPv4 address"),
        ({"base_ip": "255.255.255.254"}, "with room for 3 nodes"),
        ({"settings": ("paxos",)}, "is key=value"),
    ],
)
def test_an_option_that_cannot_be_is_said(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RingError, match=sentence):
        Options(**options)


def test_a_misspelt_option_is_an_error_of_the_caller() -> None:
    with pytest.raises(TypeError, match="a ring has no option node"):
        Options().changed({"node": 3})
