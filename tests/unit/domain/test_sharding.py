"""Sharding against the vectors of strata-keyspace.md section 10."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_daemon.domain.sharding import GC_SHARDS, bucket_slot, fnv1a32, gc_shard, object_shard, slot_shards

OID = "3f0c6c0e-1f57-4d4e-9b59-0c5a3d0f7a11.0000"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", 3826002220),
        (f"{OID}0", 2538676122),
        (f"{OID}1", 2555453741),
        ("", 2166136261),
        ("photos/2024/01.jpg", 1084628980),
        ("ключ", 2512710113),
        ("11111111-2222-4333-8444-555555555555", 2002679298),
        ("11111111-2222-4333-8444-555555555555/k-0/0", 3418617790),
        ("11111111-2222-4333-8444-555555555555/k-1/1", 1346085078),
    ],
)
def test_the_hash_is_the_one_that_gateways_compute(text: str, value: int) -> None:
    assert fnv1a32(text.encode()) == value


def test_a_chunk_falls_into_the_gc_shard_of_its_oid() -> None:
    assert [gc_shard("a"), gc_shard(f"{OID}0"), gc_shard(f"{OID}1")] == [300, 922, 301]


def test_an_oid_that_is_not_utf_8_is_hashed_by_its_own_bytes() -> None:
    raw = b"\xff\xfe.00000"
    assert gc_shard(raw.decode("utf-8", "surrogateescape")) == fnv1a32(raw) % GC_SHARDS


def test_an_object_falls_into_the_shard_of_its_key() -> None:
    assert object_shard("", 64) == 5
    assert [object_shard("photos/2024/01.jpg", count) for count in (64, 16)] == [52, 4]
    assert [object_shard("ключ", count) for count in (64, 16)] == [33, 1]


def test_a_bucket_falls_into_the_slot_of_its_id_in_lower_case() -> None:
    bucket = UUID("11111111-2222-4333-8444-555555555555")
    assert [bucket_slot(bucket, slots) for slots in (3, 8)] == [0, 2]
    letters = UUID("ABCDEFAB-0000-4000-8000-00000000ABCD")
    assert bucket_slot(letters, 1024) == fnv1a32(b"abcdefab-0000-4000-8000-00000000abcd") % 1024


@given(st.integers(1, GC_SHARDS))
def test_the_slots_share_out_every_shard_exactly_once(slots: int) -> None:
    shares = [slot_shards(slot, slots) for slot in range(slots)]
    assert sorted(shard for share in shares for shard in share) == list(range(GC_SHARDS))
    assert all(shard % slots == slot for slot, share in enumerate(shares) for shard in share)
