"""The files of one node's conf folder: their text, and writing them. Starts nothing.

Small and quick rather than fast: several nodes share one machine with the program under test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ring.options import Options
from ring.tls import Certificates

DATACENTER = "datacenter1"

# What a heap of 512 MB bears, and few threads: the defaults are made for a machine of one's own.
SMALL: dict[str, Any] = {
    "commitlog_segment_size": "8MiB",
    "commitlog_total_space": "256MiB",
    "memtable_heap_space": "64MiB",
    "memtable_offheap_space": "64MiB",
    "memtable_flush_writers": 1,
    "file_cache_size": "32MiB",
    "networking_cache_size": "16MiB",
    "key_cache_size": "4MiB",
    "counter_cache_size": "0MiB",
    "paxos_cache_size": "4MiB",
    "prepared_statements_cache_size": "8MiB",
    "concurrent_reads": 8,
    "concurrent_writes": 8,
    "concurrent_counter_writes": 2,
    "concurrent_compactors": 1,
    "native_transport_max_threads": 32,
}

LOGBACK = """<configuration>
  <statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5level [%thread] %logger{36}:%line - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""


def token(number: int, nodes: int) -> int:
    """The middle of the node's share of the ring, so that none is the smallest token, which Cassandra reserves."""
    return -(1 << 63) + (2 * number - 1) * (1 << 64) // (2 * nodes)


def rackdc(number: int) -> str:
    return f"dc={DATACENTER}\nrack=rack{number}\n"


def cassandra_yaml(options: Options, number: int, certificates: Certificates) -> str:
    values = _values(options, number)
    if options.auth:
        values |= {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer"}
    if options.tls:
        values["client_encryption_options"] = _encryption(certificates)
    for setting in options.settings:
        key, _, value = setting.partition("=")
        if value:
            values[key] = _parsed(value)
        else:
            values.pop(key, None)
    # JSON on one line is YAML, too.
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())


def _values(options: Options, number: int) -> dict[str, Any]:
    seeds = {"seeds": ",".join(options.hosts)}
    return {
        "cluster_name": "ring",
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "GossipingPropertyFileSnitch",
        "dynamic_snitch": False,
        "num_tokens": 1,
        "initial_token": str(token(number, options.nodes)),
        # Every node is a seed: all may start at once, and any may come back while the others are down. A seed takes no
        # data from its peers at its first start, and there is none to take.
        "seed_provider": [
            {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": [seeds]},
        ],
        "auto_bootstrap": False,
        "listen_address": options.host(number),
        "rpc_address": options.host(number),
        "storage_port": options.storage_port,
        "native_transport_port": options.port,
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "10000ms",
        "auto_snapshot": False,  # a table that is dropped or emptied in a test leaves nothing behind
        "block_for_peers_timeout_in_secs": 2,  # by default a node that comes back waits 10 s for peers that are down
        "paxos_variant": options.paxos,
        **SMALL,
    }


def _encryption(certificates: Certificates) -> dict[str, Any]:
    return {
        "enabled": True,
        "optional": False,
        "require_client_auth": False,
        "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"},
        "keystore": str(certificates.node),
        "truststore": str(certificates.ca),
    }


def _parsed(value: str) -> Any:
    """Numbers, booleans and objects as JSON; all else is text, such as 3000ms."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def write(folder: Path, options: Options, number: int, certificates: Certificates) -> None:
    """Write the conf folder of a node anew; its data stay."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "triggers").mkdir(exist_ok=True)
    (folder / "cassandra.yaml").write_text(cassandra_yaml(options, number, certificates))
    (folder / "cassandra-rackdc.properties").write_text(rackdc(number))
    (folder / "logback.xml").write_text(LOGBACK)
