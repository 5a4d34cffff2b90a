"""The back-reference of a chunk, by the layout of strata-keyspace.md 2.4."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_daemon.domain.backref import BackRef, BackRefError, decode

BUCKET = UUID("11111111-2222-4333-8444-555555555555")
REF = BackRef(BUCKET, 1_796_099_932_015_000_000, 2, "ключ", "null", "AES256")

text = st.binary(max_size=30).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


def test_the_layout_is_the_one_that_gateways_write() -> None:
    head = b"\x01" + BUCKET.bytes + (1_796_099_932_015_000_000).to_bytes(8, "big") + b"\0\0\0\x02" + b"\0\x04\0\x06"
    assert REF.encode() == head + b"nullAES256" + "ключ".encode()


def test_an_object_without_version_and_algorithm_has_its_key_right_behind_the_head() -> None:
    assert BackRef(BUCKET, 0, 0, "k").encode() == b"\x01" + BUCKET.bytes + bytes(16) + b"k"


@given(
    st.builds(BackRef, st.uuids(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1), text, text, text),
)
def test_what_was_encoded_decodes_to_the_same(ref: BackRef) -> None:
    assert decode(ref.encode()) == ref


@pytest.mark.parametrize(
    ("blob", "complaint"),
    [
        (b"", "at least 33 bytes, this one 0"),
        (REF.encode()[:32], "at least 33 bytes, this one 32"),
        (b"\x02" + REF.encode()[1:], "schema 2"),
        (REF.encode()[:36], "inside its version id"),
        (REF.encode()[:42], "inside its version id or algorithm"),
    ],
)
def test_what_does_not_decode_is_refused_in_a_sentence(blob: bytes, complaint: str) -> None:
    with pytest.raises(BackRefError, match=complaint):
        decode(blob)


@pytest.mark.parametrize(
    "ref", [BackRef(BUCKET, 2**63, 0, "k"), BackRef(BUCKET, 0, -1, "k"), BackRef(BUCKET, 0, 0, "k", "v" * 65536)]
)
def test_a_value_that_does_not_fit_is_refused(ref: BackRef) -> None:
    with pytest.raises(BackRefError, match="does not fit the layout"):
        ref.encode()
