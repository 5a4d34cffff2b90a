"""Stores that live in memory and die with the process.

Metadata are the tables of the embedded store in a database without a file: one set of statements, held to one suite.
"""

from __future__ import annotations

from dataclasses import dataclass

from strata_daemon.base.runtime import Runtime
from strata_daemon.ports.meta import EmbeddedMeta
from strata_daemon.stores.clock import StartClock
from strata_daemon.stores.sqlite.clusters import SqliteClusters
from strata_daemon.stores.sqlite.database import Database, open_in_memory
from strata_daemon.stores.sqlite.gc_queue import SqliteGCQueue
from strata_daemon.stores.sqlite.nodes import SqliteNodes
from strata_daemon.stores.sqlite.objects import SqliteObjects
from strata_daemon.stores.sqlite.tables import SCHEMA
from strata_daemon.stores.writers import OneWriter


@dataclass(frozen=True, slots=True)
class MemoryStores:
    meta: EmbeddedMeta
    clusters: SqliteClusters
    database: Database

    def close(self) -> None:
        self.database.close()


def open_memory(region: str, runtime: Runtime) -> MemoryStores:
    database = open_in_memory(SCHEMA, runtime)
    objects = SqliteObjects(database, OneWriter(), region, runtime)
    meta = EmbeddedMeta(
        gc_queue=SqliteGCQueue(database),
        nodes=SqliteNodes(database, runtime, boot_id="this process"),
        clock=StartClock(runtime),
        manifests=objects,
        objects=objects,
    )
    return MemoryStores(meta, SqliteClusters(database), database)
