"""The back-reference that lies beside each chunk: whose it is, when no row says so (strata-keyspace.md 2.4). Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

SCHEMA = 1
# schema, bucket, mtime in ns, chunk index, length of the version id, length of the sse algorithm; big-endian
HEAD = struct.Struct(">B16sqIHH")


class BackRefError(Exception):
    """Bytes that are no back-reference of a known schema: the chunk's owner is not known."""


@dataclass(frozen=True, slots=True)
class BackRef:
    """The owner of a chunk. `mtime_ns` counts nanoseconds since 1970, as the layout does. Bytes of the key that are not
    UTF-8 are surrogate escapes."""

    bucket_id: UUID
    mtime_ns: int
    chunk_index: int
    key: str
    version_id: str = ""
    sse_algorithm: str = ""

    def encode(self) -> bytes:
        """Raises BackRefError when a value does not fit the layout."""
        version, sse = _bytes(self.version_id), _bytes(self.sse_algorithm)
        try:
            head = HEAD.pack(SCHEMA, self.bucket_id.bytes, self.mtime_ns, self.chunk_index, len(version), len(sse))
        except struct.error as exc:
            raise BackRefError(f"{self!r} does not fit the layout: {exc}") from exc
        return head + version + sse + _bytes(self.key)


def decode(blob: bytes) -> BackRef:
    """Raises BackRefError."""
    if len(blob) < HEAD.size:
        raise BackRefError(f"A back-reference has at least {HEAD.size} bytes, this one {len(blob)}.")
    schema, bucket, mtime_ns, index, version_bytes, sse_bytes = HEAD.unpack_from(blob)
    if schema != SCHEMA:
        raise BackRefError(f"The back-reference has schema {schema}, but only {SCHEMA} is known.")
    version_end = HEAD.size + version_bytes
    key_at = version_end + sse_bytes
    if len(blob) < key_at:
        raise BackRefError(f"The back-reference ends after {len(blob)} bytes, inside its version id or algorithm.")
    return BackRef(
        bucket_id=UUID(bytes=bucket),
        mtime_ns=mtime_ns,
        chunk_index=index,
        key=_text(blob[key_at:]),
        version_id=_text(blob[HEAD.size : version_end]),
        sse_algorithm=_text(blob[version_end:key_at]),
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(blob: bytes) -> str:
    return blob.decode("utf-8", "surrogateescape")
