"""The manifest codec: the vectors of strata-keyspace.md section 10, rows as gateways wrote them, and what is broken."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_daemon.domain import manifest_pb2 as pb
from strata_daemon.domain.manifest import (
    CHUNK_BYTES,
    SSE,
    BackendRef,
    ChunkRef,
    ErasureCode,
    Manifest,
    ManifestError,
    PartRange,
    chunk_names,
    decode,
)

VECTOR = bytes.fromhex(
    "0a085354414e4441524410051880808002222035643431343032616263346232613736623937313964393131303137633539322a1d0a0263"
    "311204706f6f6c22096f69642e3030303030280530ccf6c6d309"
)
HELLO = Manifest.of(
    storage_class="STANDARD",
    size=5,
    etag="5d41402abc4b2a76b9719d911017c592",
    chunks=[ChunkRef("c1", "pool", "", "oid.00000", 5, 0x9A71BB4C)],
)
# One row a line as a gateway wrote it: what its columns say beside the manifest in base64.
ROWS = [json.loads(line) for line in (Path(__file__).parent / "vectors" / "rows.jsonl").read_text().splitlines()]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
chunk_refs = st.builds(ChunkRef, text, text, text, text, int64, st.integers(0, 2**32 - 1))
manifests = st.builds(
    lambda storage_class, size, etag, chunks: Manifest.of(
        storage_class=storage_class, size=size, etag=etag, chunks=chunks
    ),
    text,
    int64,
    text,
    st.lists(chunk_refs, max_size=5),
)


def read(blob: bytes) -> Manifest:
    found = decode(blob)
    assert found is not None
    return found


def of(bucket: str, key: str) -> Manifest:
    (row,) = [row for row in ROWS if (row["bucket"], row["key"]) == (bucket, key)]
    return read(base64.b64decode(row["manifest"]))


def as_json(**fields: Any) -> Manifest:
    return read(json.dumps(fields).encode())


def test_the_vector_decodes_to_its_values_and_encodes_to_its_bytes() -> None:
    assert read(VECTOR) == HELLO
    assert HELLO.encode() == VECTOR
    assert HELLO.chunk_size == CHUNK_BYTES == 4194304


@pytest.mark.parametrize("blob", [b"", None])
def test_no_blob_is_no_manifest(blob: bytes | None) -> None:
    assert decode(blob) is None
    assert chunk_names(decode(blob)) == ()


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['bucket']}/{row['key']}" for row in ROWS])
def test_a_row_as_a_gateway_wrote_it_decodes_to_what_its_columns_say(row: dict[str, Any]) -> None:
    blob = base64.b64decode(row["manifest"])
    manifest = decode(blob)
    if manifest is None:
        assert row["size"] == 0  # a delete marker
        return
    assert manifest.storage_class == (row["storage_class"] or "STANDARD")
    if row["key"] not in ("mpu.bin", "sse-s3.bin"):
        assert (manifest.size, manifest.etag) == (row["size"], row["etag"])
    stored = sum(chunk.size for chunk in manifest.chunks)
    ref = manifest.backend_ref
    assert stored + (0 if ref is None else ref.size) == manifest.size
    assert read(manifest.encode()) == manifest


def test_a_big_object_has_chunks_of_four_four_and_one_mebibyte() -> None:
    assert [chunk.size for chunk in of("fx-plain", "nine-mib.bin").chunks] == [4 << 20, 4 << 20, 1 << 20]


def test_an_empty_object_has_a_manifest_without_chunk() -> None:
    assert of("fx-plain", "empty.bin").chunks == ()


def test_an_encrypted_object_is_sixteen_bytes_longer_than_its_text() -> None:
    assert of("fx-plain", "sse-s3.bin").size == 116


def test_a_multipart_object_tells_its_parts() -> None:
    manifest = of("fx-plain", "multipart.bin")
    assert manifest.part_chunk_counts == (2, 1)
    assert [(part.part_number, part.offset, part.size) for part in manifest.part_chunks] == [
        (1, 0, 5 << 20),
        (2, 5 << 20, 1000),
    ]
    assert manifest.part_checksums == ({}, {})


def test_an_object_of_a_backend_has_a_reference_and_no_chunk() -> None:
    manifest = of("bx-plain", "big.bin")
    assert manifest.chunks == ()
    assert manifest.backend_ref is not None
    assert (manifest.backend_ref.backend, manifest.backend_ref.cluster) == ("s3", "s2")
    assert manifest.sse == SSE("passthrough", "AES256", "")


def test_a_multipart_object_of_a_backend_has_neither_chunk_nor_reference() -> None:
    manifest = of("bx-plain", "mpu.bin")
    assert (manifest.chunks, manifest.backend_ref, manifest.size) == ((), None, 0)


def test_json_of_an_older_gateway_is_read_whole() -> None:
    manifest = as_json(
        Class="COLD",
        Size=9,
        ChunkSize=4,
        ETag="e",
        Chunks=[{"Cluster": "c", "Pool": "p", "Namespace": "n", "OID": "o", "Size": 9, "Checksum": 7}],
        BackendRef={"Backend": "s3", "Key": "k", "ETag": "x", "Size": 1, "VersionID": "null", "Cluster": "b"},
        SSE={"Mode": "strata", "Algorithm": "aws:kms", "KMSKeyID": "id"},
        PartChunks=[{"PartNumber": 1, "Offset": 2, "Size": 3, "ETag": "t", "ChecksumValue": "v"}],
        PartChunkCounts=[1, 2],
        PartChecksums=[{"sha256": "s"}, None],
        ECParams={"K": 4, "M": 2},
    )
    assert (manifest.storage_class, manifest.size, manifest.chunk_size, manifest.etag) == ("COLD", 9, 4, "e")
    assert manifest.chunks == (ChunkRef("c", "p", "n", "o", 9, 7),)
    assert manifest.backend_ref == BackendRef("s3", "k", "x", 1, "null", "b")
    assert manifest.sse == SSE("strata", "aws:kms", "id")
    assert manifest.part_chunks == (PartRange(1, 2, 3, "t", "v", ""),)
    assert manifest.part_chunk_counts == (1, 2)
    assert manifest.part_checksums == ({"sha256": "s"}, {})
    assert manifest.ec_params == ErasureCode(4, 2)


def test_json_and_protobuf_of_one_object_are_equal() -> None:
    chunk = {"cluster": "c1", "POOL": "pool", "oid": "oid.00000", "sIzE": 5, "checksum": 0x9A71BB4C}
    assert as_json(cLass="STANDARD", SIZE=5, chunksize=4194304, etag=HELLO.etag, chunks=[chunk]) == HELLO


def test_json_may_say_null_for_no_chunks() -> None:
    assert as_json(Class="STANDARD", Chunks=None, BackendRef=None).chunks == ()


def test_json_parts_that_are_numbers_are_counts_of_chunks() -> None:
    manifest = as_json(Class="STANDARD", PartChunks=[2, 1])
    assert (manifest.part_chunk_counts, manifest.part_chunks) == ((2, 1), ())


def test_json_may_begin_with_white_space() -> None:
    assert read(b' \t\r\n{"Class":"S"}').storage_class == "S"


def test_a_class_of_123_letters_is_not_taken_for_json() -> None:
    blob = Manifest.of(storage_class="{" * 123, size=1, etag="", chunks=[]).encode()
    assert blob[:3] == b"\n{{"
    assert read(blob).storage_class == "{" * 123


def test_fields_that_are_not_known_survive_a_rewrite() -> None:
    unknown = b"\xf2\x3f\x05later"  # field 1022 of a later version
    blob = VECTOR + unknown
    assert unknown in read(blob).encode()
    inner = pb.Manifest.FromString(VECTOR)
    inner.chunks[0].MergeFromString(unknown)
    assert unknown in read(inner.SerializeToString()).encode()


@pytest.mark.parametrize(
    ("blob", "complaint"),
    [
        (VECTOR[:-1], "as protobuf"),
        (b"garbage", "as protobuf"),
        (b"\x78\x01", "no field of a manifest"),  # parses as an unknown field alone
        (b"\x0a\x02\xff\xfe", "as protobuf"),  # a class that is not UTF-8
        (b"{", "as JSON"),
        (b"{}", "no field of a manifest"),
        (b'{"other":1}', "no field of a manifest"),
        (b'{"Class":"S"', "as JSON"),
        (b'{"Class":"S"}}', "as JSON"),
        (b'{"Class":1}', "as JSON"),
        (b'{"Size":true}', "size is True"),
        (b'{"Size":1.5}', "as JSON"),
        (b'{"Size":9223372036854775808}', "as JSON"),
        (b'{"Chunks":[{"Checksum":-1}]}', "as JSON"),
        (b'{"Chunks":{"a":1}}', "chunks is no list"),
        (b'{"Chunks":[7]}', "a chunk is no object"),
        (b'{"PartChunks":[true]}', "partchunks is no list"),
        (b'{"SSE":"x"}', "sse is no object"),
        (b'{"Class":"\xff"}', "as JSON"),
        (b'{"a":' * 5000, "as JSON"),
    ],
)
def test_what_does_not_decode_is_refused_in_a_sentence(blob: bytes, complaint: str) -> None:
    with pytest.raises(ManifestError, match=complaint) as refused:
        decode(blob)
    assert str(refused.value).startswith(f"A manifest of {len(blob)} bytes (beginning with {blob[:16].hex()})")


@given(manifests)
def test_what_was_encoded_decodes_to_the_same(manifest: Manifest) -> None:
    assert decode(manifest.encode()) == manifest


@given(manifests)
def test_what_was_written_as_json_decodes_to_the_same(manifest: Manifest) -> None:
    chunks = [
        {"Cluster": c.cluster, "Pool": c.pool, "Namespace": c.namespace, "OID": c.oid, "Size": c.size}
        | ({"Checksum": c.crc32c} if c.crc32c else {})
        for c in manifest.chunks
    ]
    again = as_json(
        Class=manifest.storage_class,
        Size=manifest.size,
        ChunkSize=manifest.chunk_size,
        ETag=manifest.etag,
        Chunks=chunks or None,
    )
    assert again == manifest


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused_and_nothing_else(blob: bytes) -> None:
    try:
        manifest = decode(blob)
    except ManifestError:
        return
    assert manifest is None or decode(manifest.encode()) in (manifest, None)
