"""The sample load of `run --sample`: real files go in and out again, so that the daemon finds chunks to collect.

Main thread, after the stores are open and before any worker runs.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from strata_daemon.base import log
from strata_daemon.base.errors import PreflightError
from strata_daemon.base.runtime import Runtime
from strata_daemon.ports.chunks import ChunkStore
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.workers import intents

BUCKET = "sample"
MOST_FILES = 200
MOST_BYTES = 8 << 20


class SampleStores(Protocol):
    """What of the opened stores is used here."""

    @property
    def meta(self) -> EmbeddedMeta: ...

    @property
    def data(self) -> ChunkStore: ...

    @property
    def runtime(self) -> Runtime: ...


def load_sample(stores: SampleStores) -> None:
    """Put the standard library's own sources into the bucket and remove them; their chunks are then queued.

    Raises PreflightError when this Python keeps no sources on disk.
    """
    logger = log.logger("sample")
    stdlib = Path(sysconfig.get_path("stdlib"))
    keys, size = [], 0
    for path in sample_files(stdlib):
        body = path.read_bytes()
        key = path.relative_to(stdlib).as_posix()
        intents.put(stores.meta, stores.data, stores.runtime, BUCKET, key, body)
        keys.append(key)
        size += len(body)
    if not keys:
        raise PreflightError(f"There are no source files in {stdlib} to make a sample of; run without --sample.")
    logger.info("sample put", extra={"bucket": BUCKET, "objects": len(keys), "bytes": size, "from": str(stdlib)})
    for key in keys:
        intents.remove(stores.meta, stores.runtime, BUCKET, key)
    logger.info(
        "sample removed, its chunks are queued: gc deletes them once their grace is over",
        extra={"bucket": BUCKET, "objects": len(keys)},
    )


def sample_files(stdlib: Path) -> Iterator[Path]:
    """Up to 200 files and 8 MiB of the library's sources, each with some content, always the same ones."""
    size = 0
    candidates = [path for pattern in ("*.py", "*/*.py") for path in sorted(stdlib.glob(pattern))]
    chosen = (path for path in candidates if path.parent.name not in ("site-packages", "dist-packages", "test"))
    for count, path in enumerate(path for path in chosen if path.is_file() and path.stat().st_size > 0):
        size += path.stat().st_size
        if count == MOST_FILES or size > MOST_BYTES:
            return
        yield path
