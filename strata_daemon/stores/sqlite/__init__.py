"""The embedded store: metadata in `strata.db`, leases in `leases.db` (a file of their own)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from strata_daemon.base.runtime import Runtime
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.stores.clock import StartClock
from strata_daemon.stores.sqlite.clusters import SqliteClusters
from strata_daemon.stores.sqlite.database import Database, open_database
from strata_daemon.stores.sqlite.gc_queue import SqliteGCQueue
from strata_daemon.stores.sqlite.lease_file import read_boot_id
from strata_daemon.stores.sqlite.nodes import SqliteNodes
from strata_daemon.stores.sqlite.objects import SqliteObjects
from strata_daemon.stores.sqlite.tables import SCHEMA
from strata_daemon.stores.writers import WriterFiles

METADATA_FILE = "strata.db"
WRITERS_FOLDER = "writers"


@dataclass(frozen=True, slots=True)
class SqliteStores:
    meta: EmbeddedMeta
    clusters: SqliteClusters
    database: Database
    writers: WriterFiles

    def close(self) -> None:
        self.writers.close()
        self.database.close()


def open_sqlite(state_dir: Path, region: str, runtime: Runtime, *, read_only: bool = False) -> SqliteStores:
    """Open the metadata of a state folder. Raises PreflightError, one sentence; StoreUnavailable."""
    database = open_database(state_dir / METADATA_FILE, SCHEMA, runtime, read_only=read_only)
    try:
        writers = WriterFiles(state_dir / WRITERS_FOLDER)
        objects = SqliteObjects(database, writers, region, runtime)
        meta = EmbeddedMeta(
            gc_queue=SqliteGCQueue(database),
            nodes=SqliteNodes(database, runtime, read_boot_id()),
            clock=StartClock(runtime),
            manifests=objects,
            objects=objects,
        )
        if not read_only:
            # What killed processes left: nothing else ever removes it. A writer without a file counts as dead, so the
            # intents that name one lose nothing.
            writers.sweep()
    except BaseException:
        database.close()
        raise
    return SqliteStores(meta, SqliteClusters(database), database, writers)
