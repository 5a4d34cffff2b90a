"""The settings of a connection to a Cassandra keyspace (strata-keyspace.md 1.1). Read before any driver is imported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from strata_daemon.base.knobs import BadValue, Choice, Duration, Read, Setting, Text, read_names, read_path

PORT = 9042


def read_hosts(written: Any) -> tuple[tuple[str, int], ...]:
    """`host`, `host:port`, `::1` or `[::1]:port`, a list of them or with commas between (the Go gateway does not
    split a comma list)."""
    return tuple(dict.fromkeys(_host(name) for name in read_names(written)))


def _host(name: str) -> tuple[str, int]:
    allowed = "a list of host, host:port or [IPv6]:port with commas between them, the port from 1 to 65535"
    host, port = name, str(PORT)
    if name.startswith("["):
        host, closed, rest = name[1:].partition("]")
        if not closed or ":" not in host:
            raise BadValue(allowed)
        if rest:
            if not rest.startswith(":"):
                raise BadValue(allowed)
            port = rest[1:]
    elif name.count(":") == 1:
        host, _, port = name.partition(":")
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0
    if not host or not 1 <= number <= 65535 or any(not char.isprintable() or char in " /[]@" for char in host):
        raise BadValue(allowed)
    return host, number


def read_keyspace(written: Any) -> str:
    """An unquoted CQL name: quoting would let a setting say more than a name."""
    text = written.strip() if isinstance(written, str) else ""
    plain = text.isascii() and text.replace("_", "a").isalnum() and text[:1].isalpha() and len(text) <= 48
    if not plain or text != text.lower():
        raise BadValue("a keyspace name: lower-case letters, digits and underscores, a letter first, at most 48")
    return text


def read_optional_path(written: Any) -> Path | None:
    return read_path(written) if isinstance(written, str) and written.strip() else None


REPLICATION = re.compile(r"\{\s*'\w+'\s*:\s*'?[\w./]+'?(\s*,\s*'[^']+'\s*:\s*'?\w[\w./]*'?)*\s*\}", re.ASCII)


def read_replication(written: Any) -> str:
    """A CQL map, as the gateways read it; empty: none."""
    text = written.strip() if isinstance(written, str) else ""
    if text and not (REPLICATION.fullmatch(text) and "'class'" in text):
        raise BadValue("a CQL map such as {'class': 'NetworkTopologyStrategy', 'datacenter1': '3'}")
    return text


def read_boolean(written: Any) -> bool:
    """As Go reads one, besides on and off."""
    if isinstance(written, bool):
        return written
    word = str(written).strip().lower()
    if word in ("1", "t", "true", "on", "yes"):
        return True
    if word in ("0", "f", "false", "off", "no"):
        return False
    raise BadValue("true or false")


class CassandraSettings(BaseModel):
    """Where the ring is and how it is spoken to. Only read when STRATA_META_BACKEND is cassandra."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: Annotated[
        tuple[tuple[str, int], ...],
        Read(read_hosts),
        Setting(
            "STRATA_CASSANDRA_HOSTS",
            "cassandra.hosts",
            "127.0.0.1",
            "the list of Cassandra hosts",
            "Contact points: host, host:port or [IPv6]:port, as a list or with commas between them. The other nodes "
            "are found through them.",
        ),
    ] = (("127.0.0.1", PORT),)
    keyspace: Annotated[
        str,
        Read(read_keyspace),
        Setting(
            "STRATA_CASSANDRA_KEYSPACE",
            "cassandra.keyspace",
            "strata",
            "Strata's keyspace",
            "The gateways' keyspace. Nothing is ever created or altered in it.",
        ),
    ] = "strata"
    own_keyspace: Annotated[
        str,
        Read(read_keyspace),
        Setting(
            "STRATA_DAEMON_KEYSPACE",
            "cassandra.daemon_keyspace",
            "strata_daemon",
            "the daemon's own keyspace",
            "Where tokens, signals and other rows of the daemon's own live; made at the first start when that is "
            "allowed, with the replication of Strata's keyspace.",
        ),
    ] = "strata_daemon"
    schema_apply: Annotated[
        bool,
        Read(read_boolean),
        Setting(
            "STRATA_DAEMON_SCHEMA_APPLY",
            "cassandra.schema_apply",
            "true",
            "the leave to create the daemon's own keyspace",
            "Whether a start may create the daemon's own keyspace and tables. Without it `strata-daemon schema apply` "
            "does so, or an operator with the output of `schema print`.",
        ),
    ] = True
    replication: Annotated[
        str,
        Read(read_replication),
        Setting(
            "STRATA_CASSANDRA_REPLICATION",
            "cassandra.replication",
            "",
            "the replication of a new Strata keyspace",
            "Only for `strata-daemon schema`: the replication that Strata's keyspace gets where there is none yet, "
            "as a CQL map. Empty: NetworkTopologyStrategy with up to three replicas in the local data centre.",
        ),
    ] = ""
    local_dc: Annotated[
        str,
        Text(200),
        Setting(
            "STRATA_CASSANDRA_DC",
            "cassandra.local_dc",
            "datacenter1",
            "the local data centre",
            "The data centre whose nodes are spoken to; LOCAL_QUORUM and LOCAL_SERIAL are meant for it.",
        ),
    ] = "datacenter1"
    lease_dc: Annotated[
        str,
        Read(lambda written: "" if written == "" else Text(200).read(written)),
        Setting(
            "STRATA_LEASE_DC",
            "lease.dc",
            "",
            "the data centre of all candidates",
            "For a keyspace in several data centres: the one that every daemon and every gateway with workers lives "
            "in. LOCAL_SERIAL would elect one leader in each, so without this such a keyspace is refused.",
        ),
    ] = ""
    username: Annotated[
        str,
        Read(lambda written: "" if written == "" else Text(200).read(written)),
        Setting("STRATA_CASSANDRA_USER", "cassandra.username", "", "the Cassandra user", "User name; empty for none."),
    ] = ""
    password: Annotated[
        str,
        Read(str),
        Setting(
            "STRATA_CASSANDRA_PASSWORD",
            "cassandra.password",
            "",
            "the password of the Cassandra user",
            "Password of the user. Better in a file: see STRATA_CASSANDRA_PASSWORD_FILE.",
        ),
    ] = Field("", repr=False)
    password_file: Annotated[
        Path | None,
        Read(read_optional_path),
        Setting(
            "STRATA_CASSANDRA_PASSWORD_FILE",
            "cassandra.password_file",
            "",
            "the file with the password",
            "File whose content, without the line end, is the password; wins over STRATA_CASSANDRA_PASSWORD.",
        ),
    ] = None
    timeout_s: Annotated[
        float,
        Duration(0.5, 300, zero=10.0),
        Setting(
            "STRATA_CASSANDRA_TIMEOUT",
            "cassandra.timeout",
            "10s",
            "the time-out of a Cassandra request",
            "How long a request of a worker may take, 5s at most, and a connection. Lease requests have a time-out of "
            "their own, of 3s at most. 0 means 10s.",
        ),
    ] = 10.0
    tls_ca_file: Annotated[
        Path | None,
        Read(read_optional_path),
        Setting(
            "STRATA_CASSANDRA_TLS_CA_FILE",
            "cassandra.tls.ca_file",
            "",
            "the file with the CA of the nodes",
            "PEM file with the CA of the nodes' certificates. Any of the TLS settings turns TLS on; without this one "
            "the system's CAs count.",
        ),
    ] = None
    tls_cert_file: Annotated[
        Path | None,
        Read(read_optional_path),
        Setting(
            "STRATA_CASSANDRA_TLS_CERT_FILE",
            "cassandra.tls.cert_file",
            "",
            "the client certificate",
            "PEM file with a client certificate, for nodes that ask for one; needs STRATA_CASSANDRA_TLS_KEY_FILE.",
        ),
    ] = None
    tls_key_file: Annotated[
        Path | None,
        Read(read_optional_path),
        Setting(
            "STRATA_CASSANDRA_TLS_KEY_FILE",
            "cassandra.tls.key_file",
            "",
            "the key of the client certificate",
            "PEM file with the key of the client certificate.",
        ),
    ] = None
    tls_skip_verify: Annotated[
        bool,
        Read(read_boolean),
        Setting(
            "STRATA_CASSANDRA_TLS_SKIP_VERIFY",
            "cassandra.tls.skip_verify",
            "false",
            "the choice not to verify certificates",
            "TLS without looking at the nodes' certificates. Never in production: anybody may answer.",
        ),
    ] = False
    protocol: Annotated[
        str,
        Choice(("4", "5")),
        Setting(
            "STRATA_CASSANDRA_PROTOCOL",
            "cassandra.protocol",
            "4",
            "the version of the native protocol",
            "4, as the gateways speak it, or 5.",
        ),
    ] = "4"

    @property
    def is_tls(self) -> bool:
        return bool(self.tls_ca_file or self.tls_cert_file or self.tls_key_file or self.tls_skip_verify)

    def problems(self) -> list[str]:
        """What does not fit together."""
        found = []
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            found.append(
                "A client certificate needs both STRATA_CASSANDRA_TLS_CERT_FILE and STRATA_CASSANDRA_TLS_KEY_FILE: set "
                "the other one too, or neither."
            )
        if self.keyspace == self.own_keyspace:
            found.append(
                f"STRATA_CASSANDRA_KEYSPACE and STRATA_DAEMON_KEYSPACE are both {self.keyspace}: the daemon needs a "
                "keyspace of its own; choose another name for it."
            )
        if self.lease_dc and self.lease_dc != self.local_dc:
            found.append(
                f"STRATA_LEASE_DC is {self.lease_dc}, but STRATA_CASSANDRA_DC is {self.local_dc}: this daemon would "
                "not be a candidate where the others are; run it in that data centre."
            )
        if not self.hosts:
            found.append("STRATA_CASSANDRA_HOSTS names no host: name at least one node of the ring.")
        return found
