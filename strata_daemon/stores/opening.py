"""Opens the stores that the settings name, embedded for now, and closes them together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from strata_daemon.base.errors import PreflightError
from strata_daemon.base.runtime import Runtime
from strata_daemon.leader.store import LeaseReader, LeaseStore
from strata_daemon.ports.chunks import ChunkStore
from strata_daemon.ports.meta import Meta
from strata_daemon.stores.chunks.dir import DirChunkStore, Markers
from strata_daemon.stores.chunks.memory import MemoryChunkStore
from strata_daemon.stores.chunks.root import MARKER
from strata_daemon.stores.memory import open_memory
from strata_daemon.stores.memory.leases import MemoryLeases, MemoryLeaseStore
from strata_daemon.stores.sqlite import METADATA_FILE, open_sqlite
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore

LEASES_FILE = "leases.db"
CHUNKS_FOLDER = "data"
CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Stores:
    """All stores of a process; a context manager that closes them. `lease_reader` is for people, `lease_store` for the
    timer."""

    meta: Meta
    data: ChunkStore
    lease_store: LeaseStore
    lease_reader: LeaseReader
    runtime: Runtime
    close: Callable[[], None]

    def __enter__(self) -> Stores:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_embedded(
    meta_backend: str, data_backend: str, state_dir: Path, region: str, runtime: Runtime, *, read_only: bool = False
) -> Stores:
    """Open `sqlite` or `memory` metadata with `dir` or `memory` chunks.

    Raises PreflightError with one sentence when the state folder, a database or the chunk folder is not fit to use.
    """
    leases: SqliteLeaseStore | MemoryLeaseStore
    markers: Markers
    with ExitStack() as stack:
        if meta_backend == "sqlite":
            refuse_lost_metadata(state_dir)
            sqlite = open_sqlite(state_dir, region, runtime, read_only=read_only)
            stack.callback(sqlite.close)
            leases = SqliteLeaseStore(state_dir / LEASES_FILE, runtime, read_only=read_only)
            stack.callback(leases.close, CLOSE_S)
            meta, markers = sqlite.meta, sqlite.clusters
        else:
            memory = open_memory(region, runtime)
            meta, markers = memory.meta, memory.clusters
            leases = MemoryLeaseStore(MemoryLeases(runtime), runtime)
            stack.callback(leases.close, CLOSE_S)
        data: ChunkStore
        if data_backend == "dir":
            data = DirChunkStore(state_dir / CHUNKS_FOLDER, markers, read_only=read_only)
        else:
            data = MemoryChunkStore()
        return Stores(meta, data, leases, leases, runtime, stack.pop_all().close)


def refuse_lost_metadata(state_dir: Path) -> None:
    """Raises PreflightError when chunks stand there whose database is gone or empty: a new one would know none of them.

    The chunks are looked for first: a store's database is always made before its first chunk folder.
    """
    has_chunks = next(iter((state_dir / CHUNKS_FOLDER).glob(f"*/{MARKER}")), None) is not None
    database = state_dir / METADATA_FILE
    if has_chunks and not (database.exists() and database.stat().st_size):
        raise PreflightError(
            f"{database} is missing or empty, but {state_dir / CHUNKS_FOLDER} holds the chunks of a store:"
            " restore the database, or move the chunks away."
        )
