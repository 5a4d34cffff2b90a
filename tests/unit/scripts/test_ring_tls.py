"""A client that trusts the ring's authority is let in under each address, one that trusts the wrong one refuses."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from ring import RingError, tls
from ring.tls import Certificates

HOSTS = ["127.0.9.1", "127.0.9.2"]


def shake_hands(certificates: Certificates, trusted: Path, host: str) -> None:
    """A handshake in memory, as strict as the newest Python is by default."""
    client_context = ssl.create_default_context(cafile=str(trusted))
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(certificates.node)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(back, there, server_hostname=host)
    server = server_context.wrap_bio(there, back, server_side=True)
    left = [client, server]
    while left:
        for side in left[:]:
            try:
                side.do_handshake()
                left.remove(side)
            except ssl.SSLWantReadError:
                pass  # the other side's turn


def test_certificates(tmp_path: Path) -> None:
    made = Certificates(tmp_path / "tls")
    tls.require(made, HOSTS)
    for host in HOSTS:
        shake_hands(made, made.ca, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(made, made.wrong_ca, HOSTS[0])
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake_hands(made, made.ca, "127.0.9.3")

    before = made.ca.read_bytes()
    tls.require(made, HOSTS)
    assert made.ca.read_bytes() == before
    tls.require(made, ["127.0.9.3"])
    shake_hands(made, made.ca, "127.0.9.3")
    assert {path.stat().st_mode & 0o77 for path in made.folder.glob("*.key")} == {0}


def test_without_openssl_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RingError, match="on Debian call: apt-get install openssl"):
        tls.require(Certificates(tmp_path / "tls"), HOSTS)
