"""Rows that nobody of ours would write: each is said and kept, and what lies beside it is worked on."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from strata_daemon.domain.manifest import ChunkRef, Manifest
from tests.process.kit import (
    REGION,
    Daemons,
    at_once,
    chunk_files,
    command,
    eventually,
    execute,
    lab,
    put,
    queued,
    rows,
    seed,
    set_aside,
    status,
)

SPOILT = {
    "no protobuf": b"\xff\xff\xff\xff",
    "broken JSON": b'{"Chunks": [',
    "of another type": "text where bytes should be",
}


def put_two(state: Path) -> None:
    for name in ("bad", "good"):
        put(state, "b", name, f"the {name} one".encode())


@pytest.mark.parametrize("kind", ["no protobuf", "broken JSON", "of another type"])
def test_manifest_that_does_not_decode_is_said_and_its_row_kept(kind: str, state: Path, tmp_path: Path) -> None:
    put_two(state)
    execute(state / "strata.db", "UPDATE objects SET manifest = ? WHERE key = 'bad'", [(SPOILT[kind],)])
    (tmp_path / "bad").write_text("a new one")
    listed, good, *refused = at_once(
        lambda: command(state, "lab", "ls", "b"),
        lambda: command(state, "lab", "get", "b", "good"),
        lambda: command(state, "lab", "get", "b", "bad"),
        lambda: command(state, "lab", "rm", "b", "bad"),
        lambda: command(state, "lab", "put", "b", str(tmp_path / "bad")),
    )
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["bad", "good"], listed
    assert good.stdout == "the good one", good
    for done in refused:
        assert (done.returncode, done.stdout) == (3, ""), done
        assert "does not decode" in done.stderr and "bug" not in done.stderr, done.stderr
    assert rows(state / "strata.db", "SELECT key, manifest FROM objects WHERE key = 'bad'") == [("bad", SPOILT[kind])]
    assert len(chunk_files(state)) == 2
    assert rows(state / "strata.db", "SELECT count(*) FROM intents") == [(0,)]
    assert queued(state) == []


def test_manifest_that_names_a_file_outside_the_data_folder_reads_and_removes_nothing(
    daemons: Daemons, state: Path
) -> None:
    put_two(state)
    secret = state / "secret"
    secret.write_text("secret")
    reference = ChunkRef("default", "", "", "../../../../secret", size=6, crc32c=0)
    manifest = Manifest.of(storage_class="STANDARD", size=6, etag="", chunks=[reference]).encode()
    execute(state / "strata.db", "UPDATE objects SET manifest = ? WHERE key = 'bad'", [(manifest,)])
    done = command(state, "lab", "get", "b", "bad")
    assert (done.returncode, done.stdout) == (3, "") and "not served" in done.stderr, done
    lab(state, "rm", "b", "bad")
    daemon = daemons.leading(state)
    eventually(lambda: "../../../../secret" in set_aside(state), 5)
    daemon.stop()
    assert secret.read_text() == "secret"


HOSTILE = {
    "parents": "../../etc/passwd",
    "our own database": "../../../../strata.db",
    "absolute": "/etc/passwd",
    "NUL": "a\x00b",
    "NUL first": "\x00",
    "long": "x" * 10_240,
    "empty": "",
    "dot": ".",
    "line end": "a\nb",
}
NOT_UTF8 = b"\xff\xfe/\x80"


def insert_hostile(state: Path) -> int:
    """Each oid as text and as a blob; how many there are."""
    raw = [oid.encode() for oid in HOSTILE.values()] + [NOT_UTF8]
    with closing(sqlite3.connect(state / "strata.db")) as connection, connection:
        for at, oid in enumerate(raw):
            for as_type in ("TEXT", "BLOB"):
                connection.execute(
                    f"INSERT INTO gc_entries VALUES (?, ?, ?, CAST(? AS {as_type}), 'default', '', '')",
                    (REGION, at, 1 if as_type == "TEXT" else 2, oid),
                )
        others = [("nowhere", "", ""), ("../default", "", ""), ("default", "../..", ""), ("default", "p", "/n")]
        for at, where in enumerate(others):
            connection.execute(f"INSERT INTO gc_entries VALUES (?, 7, 3, 'whole-{at}', ?, ?, ?)", (REGION, *where))
    return 2 * len(raw) + len(others)


def test_hostile_queue_rows_are_set_aside_and_counted_and_the_others_collected(daemons: Daemons, state: Path) -> None:
    seed(state, 30)
    count = insert_hostile(state)
    before = {path: path.stat().st_ino for path in (state / "strata.db", state / "leases.db") if path.exists()}
    daemon = daemons.leading(state, GC_BATCH_SIZE="7")
    eventually(lambda: not chunk_files(state) and not queued(state), 10)
    told = status(state)["queue"]
    assert told["entries"] == 0
    assert told["set_aside"] == {"bad_oid": count - 2, "unknown_cluster": 2}
    shown = command(state, "status")
    assert shown.returncode == 0 and f"{count - 2} set aside" in shown.stdout, shown
    daemon.stop()
    assert all(path.stat().st_ino == inode for path, inode in before.items())
    assert {(line["reason"], line["level"]) for line in daemon.said("gc entries set aside")} == {
        ("bad_oid", "warn"),
        ("unknown_cluster", "warn"),
    }
    assert max(len(json.dumps(line)) for line in daemon.lines()) < 4000, "a hostile oid floods the log"


def test_hostile_rows_stay_when_they_fail_again(daemons: Daemons, state: Path) -> None:
    seed(state, 1)
    count = insert_hostile(state)
    assert command(state, "run", "--once", GC_GRACE="1ms").returncode == 0
    tries = "SELECT count(*), min(tries), max(tries) FROM gc_set_aside"
    assert rows(state / "strata.db", tries) == [(count, 1, 1)]
    execute(state / "strata.db", "UPDATE gc_set_aside SET retry_at = 0")
    assert command(state, "run", "--once", GC_GRACE="1ms").returncode == 0
    assert rows(state / "strata.db", tries) == [(count, 2, 2)]
    assert queued(state) == []
