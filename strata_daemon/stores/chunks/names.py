"""Where in a cluster's folder a chunk lies, and which names are served at all. Pure; any thread.

The folder of a chunk is its logical gc shard, so that a batch of one shard touches one folder, and a million chunks are
about a thousand files a folder. No name that is served can leave its folder: strict letters, no dot in front.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from strata_daemon.domain.sharding import gc_shard
from strata_daemon.ports.chunks import BAD_OID, ChunkName, DeleteState, Deletion

OID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", re.ASCII).fullmatch
# Pool and namespace share one folder name of at most 255 bytes.
POOL = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,99})?", re.ASCII).fullmatch
CHUNKS, POOLS, BACKREFS = "chunks", "pools", "backrefs"
SHOWN = 100  # of a bad name


class Place(NamedTuple):
    """`folder` below the cluster's own, and the file's name in it."""

    folder: tuple[str, ...]
    name: str


def place(chunk: ChunkName) -> Place | None:
    """Where the chunk lies; None for a name that is not served.

    `@` is no letter of a pool or a namespace, so no two of them share a folder.
    """
    if not OID(chunk.oid):
        return None
    shard = f"{gc_shard(chunk.oid):03x}"
    if not chunk.pool and not chunk.namespace:
        return Place((CHUNKS, shard), chunk.oid)
    if not POOL(chunk.pool) or not POOL(chunk.namespace):
        return None
    return Place((POOLS, f"{chunk.pool}@{chunk.namespace}", shard), chunk.oid)


def backref_place(at: Place) -> Place:
    """Where the back-reference lies on a file system without extended attributes."""
    return Place((BACKREFS, *at.folder), at.name)


def refusal(chunk: ChunkName) -> str:
    """The sentence about a name that is not served."""
    for word, value, most in (("oid", chunk.oid, 200), ("pool", chunk.pool, 100), ("namespace", chunk.namespace, 100)):
        if not (OID if word == "oid" else POOL)(value):
            shown = repr(value[:SHOWN]) + ("..." if len(value) > SHOWN else "")
            return (
                f"The {word} {shown} ({len(value)} characters) is not served from a folder: it must be"
                f" at most {most} of A-Z a-z 0-9 . _ - and not begin with a dot."
            )
    raise AssertionError(f"{chunk!r} is served")


def bad_name(chunk: ChunkName) -> Deletion:
    return Deletion(DeleteState.FAILED, BAD_OID, refusal(chunk))
