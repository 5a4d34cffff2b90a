"""The tables as text, and the comparison with what a ring has. The real ring is in tests/cassandra/test_schema.py."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from strata_daemon.stores.cassandra import statements
from strata_daemon.stores.cassandra.schema import (
    OWN_TABLES,
    VERSION,
    Differences,
    Found,
    Table,
    compare,
    own_statements,
    table,
)
from strata_daemon.stores.cassandra.statements import Statement
from strata_daemon.stores.cassandra.strata_schema import BY_NAME, NEEDED, STRATA_TABLES, WRITTEN, strata_statements

EVENTS = table(
    "events",
    "scope text, at timestamp, oid text, tags map<text, text>, late int",
    partition="scope",
    clustering="at DESC, oid",
    options=("default_time_to_live = 5",),
    later="late",
)
STATEMENTS = [each for each in vars(statements).values() if isinstance(each, Statement)]


def found(of: Table) -> Found:
    return Found(dict(of.columns), of.partition, of.clustering, of.descending)


def test_a_table_is_written_with_its_key_its_order_and_its_options() -> None:
    assert " ".join(EVENTS.create("own").split()) == (
        "CREATE TABLE IF NOT EXISTS own.events ( scope text, at timestamp, oid text, tags map<text, text>, late int,"
        " PRIMARY KEY ((scope), at, oid) )"
        " WITH CLUSTERING ORDER BY (at DESC, oid ASC) AND default_time_to_live = 5"
    )
    assert EVENTS.add("own", "tags") == "ALTER TABLE own.events ADD tags map<text, text>"


def test_a_key_of_several_columns_stays_together() -> None:
    queue = table("q", "a text, b int, c text", partition="a, b", clustering="c")
    assert "PRIMARY KEY ((a, b), c)" in queue.create("k")


def test_a_ring_that_has_more_than_is_needed_has_no_difference() -> None:
    more = Found({**EVENTS.columns, "newer": "text"}, EVENTS.partition, EVENTS.clustering, EVENTS.descending)
    assert not compare([EVENTS], {"events": more, "others": more})


@pytest.mark.parametrize(
    ("there", "clause"),
    [
        ({}, "has no table events"),
        ({"events": replace(found(EVENTS), columns={"scope": "text", "at": "timestamp", "oid": "text"})},
         "has no column events.tags, events.late"),
        ({"events": replace(found(EVENTS), columns={**EVENTS.columns, "late": "text"})},
         "has events.late as text where int is needed"),
        ({"events": replace(found(EVENTS), clustering=("oid",), descending=frozenset())},
         "has the table events with the key (scope), oid where (scope), at, oid is needed"),
        ({"events": replace(found(EVENTS), descending=frozenset())},
         "has the table events in another clustering order"),
    ],
)  # fmt: skip
def test_each_kind_of_difference_is_named(there: dict[str, Found], clause: str) -> None:
    assert compare([EVENTS], there).clauses() == [clause]


def test_only_what_adding_cannot_mend_counts_as_wrong() -> None:
    assert compare([EVENTS], {}) == Differences(tables=("events",))
    assert compare([EVENTS], {"events": replace(found(EVENTS), columns={**EVENTS.columns, "late": "text"})}).wrong


def test_a_column_that_came_later_may_be_missing_from_the_base() -> None:
    old = {name: kind for name, kind in EVENTS.columns.items() if name != "late"}
    there = {"events": replace(found(EVENTS), columns=old)}
    assert not compare([EVENTS.base], there)
    assert compare([EVENTS], there).columns == (("events", "late"),)


def test_every_statement_of_ours_has_its_table_in_the_schema() -> None:
    """Else the first use of it fails on a ring that a start has called fit."""
    own = {each.name for each in OWN_TABLES}
    strata = {each.name for each in NEEDED}
    for statement in STATEMENTS:
        for keyspace, name in re.findall(r"\{(\w+)\}\.(\w+)", statement.cql):
            assert statement.table == name
            assert name in (own if keyspace == "own" else strata), statement.cql


def test_every_column_that_a_statement_writes_is_in_the_schema() -> None:
    tables = {each.name: each for each in (*OWN_TABLES, *STRATA_TABLES)}
    inserts = [each for each in STATEMENTS if each.cql.startswith("INSERT")]
    assert len(inserts) > 5
    for statement in inserts:
        written = re.search(r"\.\w+ \(([^)]*)\)", statement.cql)
        assert written is not None
        unknown = {name.strip() for name in written[1].split(",")} - tables[statement.table].columns.keys()
        assert not unknown, statement.cql


def test_the_tables_that_are_written_are_those_that_the_statements_write() -> None:
    """What `rights` asks for is what the daemon does."""
    verbs = {"INSERT", "UPDATE", "DELETE"}
    written = {each.table for each in STATEMENTS if each.cql.split()[0] in verbs and "{strata}." in each.cql}
    assert written == set(WRITTEN)


def test_tokens_have_no_time_to_live() -> None:
    """A token that ran out would be drawn twice (design.md section 4)."""
    tokens = next(each for each in OWN_TABLES if each.name == "lease_tokens")
    assert "time_to_live" not in tokens.create("own")


def test_the_tables_of_both_keyspaces_are_each_made_once() -> None:
    for made in (own_statements("own", "{}"), strata_statements("s", "{}")):
        names = re.findall(r"CREATE TABLE IF NOT EXISTS (\S+)", "\n".join(made))
        assert len(names) == len(set(names))
        assert made[0].startswith("CREATE KEYSPACE IF NOT EXISTS")
    assert f"VALUES ('strata_daemon', {VERSION})" in own_statements("own", "{}")[-1]


def test_the_types_come_before_the_tables_that_use_them() -> None:
    made = strata_statements("s", "{}")
    kinds = [statement.split()[1] for statement in made]
    assert kinds.index("TYPE") < kinds.index("TABLE")
    assert "frozen<objectlock_cfg>" in BY_NAME["buckets"].create("s")


def test_no_column_that_the_key_needs_came_later() -> None:
    for each in STRATA_TABLES:
        assert not each.later & {*each.partition, *each.clustering}
        assert each.later <= each.columns.keys()
