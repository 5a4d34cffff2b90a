"""The manifest of an object: which chunks hold its bytes, and how (strata-keyspace.md section 2). Pure; any thread.

Protobuf and the older JSON are read, protobuf is written. Fields that this version does not know survive a rewrite
(Strata's own drop them); keys of the JSON variant that it does not know have no place in protobuf and are dropped.
Reading or writing the row that holds a manifest is the stores' part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from strata_daemon.domain import manifest_pb2 as pb
from strata_daemon.domain.manifest_json import NotAManifest, read_json

CHUNK_BYTES = 4 << 20
WHITE = b" \t\n\r"


class ManifestError(Exception):
    """A blob that is no manifest: nothing may be concluded about the chunks of its object."""


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """One stored chunk. `size` counts stored bytes, `crc32c` is theirs; 0 means unknown, not to be compared."""

    cluster: str
    pool: str
    namespace: str
    oid: str
    size: int
    crc32c: int = 0


@dataclass(frozen=True, slots=True)
class BackendRef:
    """An object that a backend keeps whole, instead of chunks. `version_id`: "" none, "null" suspended, else an id."""

    backend: str
    key: str
    etag: str
    size: int
    version_id: str
    cluster: str


@dataclass(frozen=True, slots=True)
class PartRange:
    """The range of plaintext bytes of one part of a multipart upload."""

    part_number: int
    offset: int
    size: int
    etag: str
    checksum_value: str
    checksum_algorithm: str


@dataclass(frozen=True, slots=True)
class SSE:
    """How the stored bytes are encrypted: mode passthrough, strata or both."""

    mode: str
    algorithm: str
    kms_key_id: str


@dataclass(frozen=True, slots=True)
class ErasureCode:
    k: int
    m: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest, never changed in place. Made by `decode` or `Manifest.of`; two are equal when all fields are."""

    _message: pb.Manifest

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(
        cls, *, storage_class: str, size: int, etag: str, chunks: Iterable[ChunkRef], chunk_size: int = CHUNK_BYTES
    ) -> Manifest:
        """A plain manifest. `size` in stored bytes, `etag` the md5 of the stored bytes in hex."""
        message = pb.Manifest(size=size, chunk_size=chunk_size, etag=etag)
        setattr(message, "class", storage_class)
        message.chunks.extend(
            pb.ChunkRef(
                cluster=chunk.cluster,
                pool=chunk.pool,
                namespace=chunk.namespace,
                oid=chunk.oid,
                size=chunk.size,
                crc32c=chunk.crc32c,
            )
            for chunk in chunks
        )
        return cls(message)

    @property
    def storage_class(self) -> str:
        return str(getattr(self._message, "class"))

    @property
    def size(self) -> int:
        """Stored bytes, so the ciphertext's where there is one."""
        return self._message.size

    @property
    def chunk_size(self) -> int:
        return self._message.chunk_size

    @property
    def etag(self) -> str:
        return self._message.etag

    @property
    def chunks(self) -> tuple[ChunkRef, ...]:
        """In the order of their bytes."""
        return tuple(
            ChunkRef(each.cluster, each.pool, each.namespace, each.oid, each.size, each.crc32c)
            for each in self._message.chunks
        )

    @property
    def part_chunk_counts(self) -> tuple[int, ...]:
        """Chunks a part, which the decryption of an encrypted multipart object needs."""
        return tuple(self._message.part_chunk_counts)

    @property
    def part_checksums(self) -> tuple[dict[str, str], ...]:
        return tuple(dict(each.values) for each in self._message.part_checksums)

    @property
    def part_chunks(self) -> tuple[PartRange, ...]:
        return tuple(
            PartRange(each.part_number, each.offset, each.size, each.etag, each.checksum_value, each.checksum_algorithm)
            for each in self._message.part_chunks
        )

    @property
    def backend_ref(self) -> BackendRef | None:
        if not self._message.HasField("backend_ref"):
            return None
        ref = self._message.backend_ref
        return BackendRef(ref.backend, ref.key, ref.etag, ref.size, ref.version_id, ref.cluster)

    @property
    def sse(self) -> SSE | None:
        if not self._message.HasField("sse"):
            return None
        sse = self._message.sse
        return SSE(sse.mode, sse.algorithm, sse.kms_key_id)

    @property
    def ec_params(self) -> ErasureCode | None:
        if not self._message.HasField("ec_params"):
            return None
        return ErasureCode(self._message.ec_params.k, self._message.ec_params.m)

    def encode(self) -> bytes:
        """As protobuf, unknown fields included; the same bytes for equal manifests of one source."""
        return self._message.SerializeToString(deterministic=True)


def decode(blob: bytes | None) -> Manifest | None:
    """The manifest in a row's blob; None for an empty one (a delete marker). Raises ManifestError.

    JSON and protobuf are told apart as Strata does (strata-keyspace.md 2.3). That sniffing takes a storage class of
    123 letters for JSON, so what the first decoder refuses the other one may read.
    """
    if not blob:
        return None
    looks_like_json = blob.lstrip(WHITE)[:1] == b"{"
    first, second = (_from_json, _from_proto) if looks_like_json else (_from_proto, _from_json)
    try:
        return first(blob)
    except NotAManifest as refused:
        try:
            return second(blob)
        except NotAManifest:
            raise ManifestError(
                f"A manifest of {len(blob)} bytes (beginning with {blob[:16].hex()}) does not decode: {refused}."
            ) from refused


def chunk_names(manifest: Manifest | None) -> tuple[ChunkRef, ...]:
    """The chunks that a row with this manifest names; none for a row without one."""
    return () if manifest is None else manifest.chunks


def _from_json(blob: bytes) -> Manifest:
    return Manifest(read_json(blob))


def _from_proto(blob: bytes) -> Manifest:
    """Bytes of another kind often parse as nothing but unknown fields: a manifest has one that we know."""
    message = pb.Manifest()
    try:
        message.ParseFromString(blob)
    except DecodeError as exc:
        raise NotAManifest(f"as protobuf: {exc}") from exc
    if not message.ListFields():
        raise NotAManifest("as protobuf: it has no field of a manifest")
    return Manifest(message)
