"""Which chunk folders were made, and by which marker they are known: a folder without it is missing, not new."""

from __future__ import annotations

from strata_daemon.stores.sqlite.database import Database


class SqliteClusters:
    def __init__(self, database: Database) -> None:
        self._database = database

    def expected(self, cluster: str) -> str | None:
        """The marker recorded for a cluster; None when it was never made. Raises StoreUnavailable."""
        with self._database.read() as connection:
            row = connection.execute("SELECT marker FROM clusters WHERE name = ?", (cluster,)).fetchone()
        return None if row is None else str(row[0])

    def record(self, cluster: str, marker: str) -> None:
        """Once a cluster; of two processes the second keeps the first's marker. Durable on return."""
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO clusters VALUES (?, ?)", (cluster, marker))
