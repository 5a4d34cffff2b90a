"""Opens the stores that the settings name, and closes them together."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import PreflightError
from strata_daemon.base.runtime import Runtime
from strata_daemon.ports.chunks import ChunkStore
from strata_daemon.ports.stores import EmbeddedStores, Stores
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


def open_embedded(
    meta_backend: str, data_backend: str, state_dir: Path, region: str, runtime: Runtime, *, read_only: bool = False
) -> EmbeddedStores:
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
        data = _chunks(data_backend, state_dir, markers, read_only=read_only)
        probes = {"metadata": meta.nodes.read, "lease": leases.list_leases}
        return EmbeddedStores(meta, data, leases, leases, runtime, stack.pop_all().close, probes)


def open_ring(
    settings: CassandraSettings,
    data_backend: str,
    state_dir: Path,
    region: str,
    runtime: Runtime,
    *,
    dual_write: bool = True,
    read_only: bool = False,
) -> Stores:
    """Connect to the keyspace that the settings name, with `dir` or `memory` chunks. One try.

    Raises StoreUnavailable when the ring does not answer, PreflightError when another try would end the same way.
    """
    # The driver costs a quarter of a second to import: only who needs it pays.
    from strata_daemon.stores.cassandra.opening import open_cassandra

    with ExitStack() as stack:
        ring = open_cassandra(settings, region, runtime, dual_write=dual_write, read_only=read_only)
        stack.callback(ring.close)
        if data_backend == "dir":
            # The folder's own marks stay beside it: they say which folder this machine once saw, not what is in it.
            local = open_sqlite(state_dir, region, runtime, read_only=read_only)
            stack.callback(local.close)
            data = _chunks(data_backend, state_dir, local.clusters, read_only=read_only)
        else:
            data = MemoryChunkStore()
        probes = {"Cassandra": ring.leases.probe}
        return Stores(
            ring.meta, data, ring.leases, ring.leases, runtime, stack.pop_all().close, probes, ring.shared_settings
        )


def _chunks(data_backend: str, state_dir: Path, markers: Markers, *, read_only: bool) -> ChunkStore:
    if data_backend == "dir":
        return DirChunkStore(state_dir / CHUNKS_FOLDER, markers, read_only=read_only)
    return MemoryChunkStore()


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
