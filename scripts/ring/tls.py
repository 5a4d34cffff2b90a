"""Certificates for the clients of a ring, made by openssl: an authority, a node's certificate, and a wrong authority.

For tests on this machine: the keys lie unencrypted beside the certificates, readable to their owner only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ring.errors import RingError

DAYS = "3650"

# Python from 3.13 on refuses chains without these extensions.
CA_CONFIG = """[req]
distinguished_name = name
prompt = no
x509_extensions = ca
[name]
CN = {name}
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
"""

NODE_EXTENSIONS = """basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""


@dataclass(frozen=True)
class Certificates:
    """Where the certificates of a ring lie."""

    folder: Path

    @property
    def ca(self) -> Path:
        """PEM of the authority that a client trusts."""
        return self.folder / "ca.pem"

    @property
    def wrong_ca(self) -> Path:
        """PEM of an authority that signed nothing: a client that trusts only this one must refuse the ring."""
        return self.folder / "wrong-ca.pem"

    @property
    def node(self) -> Path:
        """PEM of the key and the certificate of every node."""
        return self.folder / "node.pem"


def require(certificates: Certificates, hosts: Sequence[str]) -> None:
    """Make the certificates, unless those for `hosts` are there."""
    stamp = certificates.folder / "stamp"
    wanted = ",".join(f"IP:{host}" for host in hosts)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    if shutil.which("openssl") is None:
        raise RingError("certificates are made by openssl, which is not here; on Debian call: apt-get install openssl")
    shutil.rmtree(certificates.folder, ignore_errors=True)
    certificates.folder.mkdir(parents=True, mode=0o700)
    _make_ca(certificates.ca, "ring")
    _make_ca(certificates.wrong_ca, "wrong ring")
    _make_node(certificates, wanted)
    stamp.write_text(wanted)


def _make_ca(ca: Path, name: str) -> None:
    config = ca.with_suffix(".cnf")
    config.write_text(CA_CONFIG.format(name=name))
    new_key = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(ca.with_suffix(".key"))]
    _openssl("req", "-x509", "-config", str(config), *new_key, "-days", DAYS, "-out", str(ca))


def _make_node(certificates: Certificates, names: str) -> None:
    request, key, signed = (certificates.node.with_suffix(end) for end in (".csr", ".key", ".crt"))
    config, extensions = certificates.ca.with_suffix(".cnf"), certificates.node.with_suffix(".ext")
    extensions.write_text(NODE_EXTENSIONS.format(names=names))
    new_key = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(key)]
    _openssl("req", "-new", "-config", str(config), "-subj", "/CN=node", *new_key, "-out", str(request))
    signer = ["-CA", str(certificates.ca), "-CAkey", str(certificates.ca.with_suffix(".key")), "-CAcreateserial"]
    _openssl(
        *("x509", "-req", "-in", str(request), *signer),
        *("-extfile", str(extensions), "-days", DAYS, "-out", str(signed)),
    )
    certificates.node.write_text(key.read_text() + signed.read_text())
    os.chmod(certificates.node, 0o600)


def _openssl(*arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RingError(f"openssl {arguments[0]} failed, so there are no certificates:\n{done.stderr.strip()}")
