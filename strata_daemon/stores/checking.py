"""What `strata-daemon check` says of the folders of this machine: embedded store and chunks. Changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.findings import Finding, fail, ok, warn
from strata_daemon.base.runtime import Runtime
from strata_daemon.stores.chunks.dir import DirChunkStore
from strata_daemon.stores.chunks.memory import MemoryChunkStore
from strata_daemon.stores.chunks.root import MARKER, ClusterRoot
from strata_daemon.stores.opening import CHUNKS_FOLDER, LEASES_FILE, refuse_lost_metadata
from strata_daemon.stores.sqlite import METADATA_FILE, open_sqlite
from strata_daemon.stores.sqlite.leases import SqliteLeaseStore
from strata_daemon.stores.sqlite.mounts import refuse_network

LITTLE_BYTES = 64 << 20


def check_embedded(state_dir: Path, region: str, runtime: Runtime) -> list[Finding]:
    """The state folder with its databases."""
    folder = _folder(state_dir)
    if not (state_dir / METADATA_FILE).exists():
        return [folder]
    try:
        open_sqlite(state_dir, region, runtime, read_only=True).close()
        database = ok("database", f"{state_dir / METADATA_FILE} can be read.")
    except (PreflightError, StoreUnavailable) as exc:
        database = fail("database", str(exc))
    return [folder, database, _leases(state_dir / LEASES_FILE, runtime)]


def _leases(path: Path, runtime: Runtime) -> Finding:
    try:
        store = SqliteLeaseStore(path, runtime, read_only=True)
        return ok("leases", f"{path} can be read; {len(store.list_leases())} are held.")
    except (PreflightError, StoreUnavailable) as exc:
        return fail("leases", str(exc))


def _folder(state_dir: Path) -> Finding:
    """Whether it can be written, or made."""
    about = "state folder"
    there = next(path for path in (state_dir, *state_dir.parents) if path.exists())
    try:
        refuse_network(there)
        free = os.statvfs(there)
    except PreflightError as exc:
        return fail(about, str(exc))
    except OSError as exc:
        return fail(about, f"{there} cannot be looked at ({exc.strerror}): correct STRATA_STATE_DIR.")
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        how = "make it writable for this user, or choose another by STRATA_STATE_DIR"
        return fail(about, f"{there} is no folder that this user may write: {how}.")
    if not free.f_blocks:
        return fail(about, f"{there} holds no files of ours (it has no size): choose a folder by STRATA_STATE_DIR.")
    if free.f_bavail * free.f_frsize < LITTLE_BYTES:
        return warn(about, f"The disk of {there} has only {free.f_bavail * free.f_frsize >> 20} MiB left: make room.")
    if there != state_dir:
        return ok(about, f"{state_dir} does not exist yet; the first start makes it.")
    return ok(about, f"{state_dir} can be written.")


def delete_time_s(data_backend: str) -> float:
    """How long a deletion of chunks may take there."""
    return DirChunkStore.delete_time_s if data_backend == "dir" else MemoryChunkStore.delete_time_s


def check_chunks(data_backend: str, state_dir: Path, region: str, runtime: Runtime) -> list[Finding]:
    """The folder of the chunks, and the mark that says that it is the right one."""
    about = "chunks"
    if data_backend != "dir":
        return [ok(about, f"Chunks are kept in {data_backend}: they are gone with the process.")]
    folder = state_dir / CHUNKS_FOLDER
    try:
        refuse_lost_metadata(state_dir)
        if not (state_dir / METADATA_FILE).exists():
            return [ok(about, f"{folder} does not exist yet; the first start makes it.")]
        store = open_sqlite(state_dir, region, runtime, read_only=True)
        try:
            root = ClusterRoot(folder, "default", store.clusters, read_only=True)
            if store.clusters.expected("default") is None:
                return [ok(about, f"{root.path} does not exist yet; the first start makes it.")]
            with root.open():
                return [ok(about, f"{root.path} is there, with its mark {MARKER}.")]
        finally:
            store.close()
    except (PreflightError, StoreUnavailable) as exc:
        return [fail(about, str(exc))]
