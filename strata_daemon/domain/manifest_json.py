"""The JSON variant of a manifest, as older gateways wrote it (strata-keyspace.md 2.2). Read only. Pure; any thread.

Keys are compared without regard to case, as Go does; of two that differ in case only the last one counts. A null
leaves a field at its zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from strata_daemon.domain import manifest_pb2 as pb

# Folded key -> field of the message. `Checksum` of a chunk is its CRC-32C.
CHUNK = {"cluster": "cluster", "pool": "pool", "namespace": "namespace", "oid": "oid", "size": "size"}
CHUNK |= {"checksum": "crc32c"}
BACKEND_REF = {"backend": "backend", "key": "key", "etag": "etag", "size": "size", "versionid": "version_id"}
BACKEND_REF |= {"cluster": "cluster"}
PART_RANGE = {"partnumber": "part_number", "offset": "offset", "size": "size", "etag": "etag"}
PART_RANGE |= {"checksumvalue": "checksum_value", "checksumalgorithm": "checksum_algorithm"}
SSE = {"mode": "mode", "algorithm": "algorithm", "kmskeyid": "kms_key_id"}
EC = {"k": "k", "m": "m"}
SCALARS = {"class": "class", "size": "size", "chunksize": "chunk_size", "etag": "etag"}
LISTS = ("chunks", "partchunkcounts", "partchunks", "partchecksums")
KNOWN = {*SCALARS, *LISTS, "backendref", "sse", "ecparams"}


class NotAManifest(Exception):
    """What one decoder says of a blob that it cannot read; a part of a sentence."""


def read_json(blob: bytes) -> pb.Manifest:
    """Raises NotAManifest."""
    try:
        found = msgspec.json.decode(blob)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise NotAManifest(f"as JSON: {exc}") from exc
    message = pb.Manifest()
    try:
        folded = _folded(found, "the manifest")
        _fill_manifest(message, folded)
    except (TypeError, ValueError) as exc:
        raise NotAManifest(f"as JSON: {exc}") from exc
    if not folded.keys() & KNOWN:
        raise NotAManifest("as JSON: it has no field of a manifest")
    return message


def _fill_manifest(message: pb.Manifest, found: Mapping[str, Any]) -> None:
    _fill(message, found, SCALARS)
    for each in _items(found, "chunks"):
        _fill(message.chunks.add(), _folded(each, "a chunk"), CHUNK)
    message.part_chunk_counts.extend(_items(found, "partchunkcounts"))
    for each in _items(found, "partchunks"):
        # Old rows hold the counts under this name, as a list of numbers.
        if isinstance(each, int):
            message.part_chunk_counts.append(each)
        else:
            _fill(message.part_chunks.add(), _folded(each, "a part"), PART_RANGE)
    for each in _items(found, "partchecksums"):
        message.part_checksums.add().values.update(_mapping(each if each is not None else {}, "a part's checksums"))
    parts: tuple[tuple[str, Callable[[], object], Mapping[str, str]], ...] = (
        ("backendref", lambda: message.backend_ref, BACKEND_REF),
        ("sse", lambda: message.sse, SSE),
        ("ecparams", lambda: message.ec_params, EC),
    )
    for key, part, fields in parts:
        if found.get(key) is not None:
            field = part()
            field.SetInParent()  # type: ignore[attr-defined]
            _fill(field, _folded(found[key], key), fields)


def _fill(message: object, found: Mapping[str, Any], fields: Mapping[str, str]) -> None:
    for key, field in fields.items():
        value = found.get(key)
        if value is None:
            continue
        if isinstance(value, bool):
            raise TypeError(f"{key} is {value}")
        setattr(message, field, value)


def _items(found: Mapping[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or any(isinstance(each, bool) for each in value):
        raise TypeError(f"{key} is no list of what belongs there")
    return value


def _folded(found: Any, what: str) -> dict[str, Any]:
    return {key.casefold(): value for key, value in _mapping(found, what).items()}


def _mapping(found: Any, what: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise TypeError(f"{what} is no object but {type(found).__name__}")
    return found
