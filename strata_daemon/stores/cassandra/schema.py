"""Our own keyspace: its tables, and which version of them this daemon needs; how any table is written and compared.

Pure text and comparing; what looks into a ring or changes one is in `schema_steps`. A table of ours never changes its
key or drops a column: schema N works with daemon N-1 (design.md section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

VERSION = 1
VERSION_NAME = "strata_daemon"  # of the row in schema_version


@dataclass(frozen=True, slots=True)
class Table:
    """What a table must be. `columns` by name in the order of the statement; `later`: those that an old keyspace may
    lack; `options`: what stands behind WITH besides the order."""

    name: str
    columns: Mapping[str, str]
    partition: tuple[str, ...]
    clustering: tuple[str, ...] = ()
    descending: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()
    later: frozenset[str] = frozenset()

    @property
    def base(self) -> Table:
        """Without the columns that came later."""
        kept = {name: kind for name, kind in self.columns.items() if name not in self.later}
        return Table(self.name, kept, self.partition, self.clustering, self.descending, self.options)

    def create(self, keyspace: str) -> str:
        key = ", ".join([f"({', '.join(self.partition)})", *self.clustering])
        lines = [f"    {name} {kind}," for name, kind in self.columns.items()]
        order = ", ".join(f"{name} {'DESC' if name in self.descending else 'ASC'}" for name in self.clustering)
        options = ([f"CLUSTERING ORDER BY ({order})"] if self.clustering else []) + list(self.options)
        end = f") WITH {' AND '.join(options)}" if options else ")"
        head = f"CREATE TABLE IF NOT EXISTS {keyspace}.{self.name} ("
        return "\n".join([head, *lines, f"    PRIMARY KEY ({key})", end])

    def add(self, keyspace: str, column: str) -> str:
        return f"ALTER TABLE {keyspace}.{self.name} ADD {column} {self.columns[column]}"


@dataclass(frozen=True, slots=True)
class Found:
    """A table as a ring has it."""

    columns: Mapping[str, str]
    partition: tuple[str, ...]
    clustering: tuple[str, ...]
    descending: frozenset[str]


@dataclass(frozen=True, slots=True)
class Differences:
    """What a keyspace has otherwise. Tables and columns that it has besides are no difference: they may be newer."""

    tables: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # of tables that are there
    wrong: tuple[str, ...] = field(default=())  # clauses: what cannot be mended by adding

    def __bool__(self) -> bool:
        return bool(self.tables or self.columns or self.wrong)

    def clauses(self) -> list[str]:
        """Each completes "the keyspace ...", such as "has no table terms"."""
        found = []
        if self.tables:
            found.append(f"has no table {', '.join(self.tables)}")
        if self.columns:
            found.append(f"has no column {', '.join(f'{table}.{column}' for table, column in self.columns)}")
        return found + list(self.wrong)


def compare(tables: Iterable[Table], found: Mapping[str, Found]) -> Differences:
    """`found` by table name."""
    missing, columns, wrong = [], [], []
    for table in tables:
        there = found.get(table.name)
        if there is None:
            missing.append(table.name)
            continue
        columns += [(table.name, column) for column in table.columns if column not in there.columns]
        wrong += _wrong(table, there)
    return Differences(tuple(missing), tuple(columns), tuple(wrong))


def _wrong(table: Table, there: Found) -> list[str]:
    clauses = [
        f"has {table.name}.{column} as {there.columns[column]} where {kind} is needed"
        for column, kind in table.columns.items()
        if column in there.columns and there.columns[column] != kind
    ]
    if (there.partition, there.clustering) != (table.partition, table.clustering):
        had, needed = (f"({', '.join(t.partition)}), {', '.join(t.clustering)}".rstrip(", ") for t in (there, table))
        clauses.append(f"has the table {table.name} with the key {had} where {needed} is needed")
    elif there.descending != table.descending:
        clauses.append(f"has the table {table.name} in another clustering order")
    return clauses


def table(
    name: str, columns: str, *, partition: str, clustering: str = "", options: tuple[str, ...] = (), later: str = ""
) -> Table:
    """`columns` as in CQL, "name type, ..."; `clustering` as "name, name DESC"; `later` names of columns, blanks
    between."""
    steps = [step.split() for step in clustering.split(",") if step.strip()]
    return Table(
        name,
        dict(_columns(columns)),
        tuple(part.strip() for part in partition.split(",")),
        tuple(step[0] for step in steps),
        frozenset(step[0] for step in steps if step[1:] == ["DESC"]),
        options,
        frozenset(later.split()),
    )


def _columns(text: str) -> list[tuple[str, str]]:
    """Commas inside a type such as map<text, text> part nothing."""
    parts, depth = [""], 0
    for char in text:
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [(name, kind) for name, _, kind in (part.strip().partition(" ") for part in parts)]


# No TTL and no default time to live where a row's loss would break a rule (tokens).
OWN_TABLES: tuple[Table, ...] = (
    table("schema_version", "name text, version int", partition="name"),
    table("lease_tokens", "name text, fence bigint, holder text, drawn_at timestamp", partition="name"),
    table("signals", "scope text, node text, seq bigint, releases text", partition="scope", clustering="node"),
    table(
        "terms",
        "lease text, fence bigint, holder text, node text, began_at timestamp, ended_at timestamp, reason text",
        partition="lease",
        clustering="fence DESC",
        options=("default_time_to_live = 2592000",),  # a history for people: 30 days
    ),
    table(
        "gc_set_aside",
        "region text, part int, shard_id int, enqueued_at timestamp, oid text, cluster text, pool text, namespace text,"
        " reason text, tries int, retry_at timestamp",
        partition="region, part",
        clustering="shard_id, enqueued_at, oid",
    ),
    table(
        "gc_depth",
        "region text, shard_id int, entry_count bigint, is_at_least boolean, oldest_at timestamp, set_aside text,"
        " counted_at timestamp",
        partition="region",
        clustering="shard_id",
    ),
    table(
        "node_settings",
        "scope text, node text, started_at timestamp, gc_shards int",
        partition="scope",
        clustering="node",
    ),
)


def create_keyspace(keyspace: str, replication: str) -> str:
    """`replication` as a CQL map literal."""
    return f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}"


def record_version(keyspace: str) -> str:
    return f"INSERT INTO {keyspace}.schema_version (name, version) VALUES ('{VERSION_NAME}', {VERSION})"


def own_statements(keyspace: str, replication: str) -> list[str]:
    """All that makes our keyspace, in order; each may be repeated."""
    tables = [each.create(keyspace) for each in OWN_TABLES]
    return [create_keyspace(keyspace, replication), *tables, record_version(keyspace)]
