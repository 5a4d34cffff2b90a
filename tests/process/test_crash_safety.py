"""SIGKILL at random moments of put, rm, seed and gc, 200 rounds: nothing leaks, nothing is lost (issue: Tests).

What the state folder holds is judged by `sqlite3` and the file system; only manifests are read by the product's codec.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata_daemon.domain.manifest import chunk_names, decode
from tests.process.kit import ROOT, execute, rows

CHILD = Path(__file__).with_name("crash_rounds.py")
BATCHES, ROUNDS = 10, 20
KEPT = 3  # objects that no child removes
IN_FOLDER = {"strata.db", "leases.db", "data", "writers"}
IN_CLUSTER = {".strata-chunks", "chunks", "backrefs"}


class Rounds:
    """The process that forks and kills."""

    def __init__(self, seed: int, log: Path) -> None:
        self.log = log
        self._errors = log.with_suffix(".err")
        with self._errors.open("wb") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, str(CHILD), str(seed), str(log)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def tell(self, verb: str, state: Path, *rest: object) -> None:
        assert self._popen.stdin is not None and self._popen.stdout is not None
        self._popen.stdin.write(" ".join(map(str, (verb, state, *rest))) + "\n")
        self._popen.stdin.flush()
        answer = self._popen.stdout.readline()
        assert answer == f'{{"done": "{verb}"}}\n', (answer, self._errors.read_text()[-3000:])

    def end(self) -> None:
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, 9)
        self._popen.communicate(timeout=10)


@dataclass(frozen=True)
class Seen:
    """What a state folder holds: oids, by who names them; `files` and `objects` with their chunks' bytes."""

    files: dict[str, bytes]
    objects: dict[str, list[str]]
    queue: set[str]
    intents: set[str]

    @property
    def named(self) -> set[str]:
        return {oid for oids in self.objects.values() for oid in oids}

    def check(self) -> None:
        leaked = self.files.keys() - self.named - self.queue - self.intents
        assert not leaked, f"files that nothing names: {leaked}"
        lost = self.named - self.files.keys()
        assert not lost, f"objects miss their chunks: {lost}"
        doomed = self.named & self.queue
        assert not doomed, f"chunks of objects are queued: {doomed}"


def look(state: Path) -> Seen:
    file = state / "strata.db"
    files = {path.name: path.read_bytes() for path in state.glob("data/default/chunks/*/*")}
    objects = {}
    for key, size, etag, manifest in rows(file, "SELECT key, size, etag, manifest FROM objects"):
        references = chunk_names(decode(manifest))
        objects[key] = [each.oid for each in references]
        body = b"".join(files.get(oid, b"?") for oid in objects[key])
        assert len(body) == size and hashlib.md5(body, usedforsecurity=False).hexdigest() == etag, f"{key} is not whole"
    queue = {oid for (oid,) in rows(file, "SELECT oid FROM gc_entries UNION SELECT oid FROM gc_set_aside")}
    intents = {chunk[3] for (chunks,) in rows(file, "SELECT chunks FROM intents") for chunk in json.loads(chunks)}
    return Seen(files, objects, queue, intents)


def has_table(file: Path, name: str) -> bool:
    """Not while a process was killed at making it."""
    return file.exists() and bool(rows(file, "SELECT name FROM sqlite_schema WHERE name = ?", name))


def forget_the_dead(state: Path) -> None:
    """As if the TTLs had passed."""
    for file, table in (("leases.db", "leases"), ("strata.db", "nodes")):
        if has_table(state / file, table):
            execute(state / file, f"DELETE FROM {table}")


def check_swept(state: Path) -> None:
    """No file is left that only a process under way may have."""
    assert {path.name for path in state.iterdir()} - {"strata.db-wal", "strata.db-shm"} <= IN_FOLDER
    assert {path.name for path in (state / "data" / "default").iterdir()} <= IN_CLUSTER
    assert list(state.glob("writers/*")) + list(state.glob("writers/.*")) == []


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("STRATA_TEST_SEED") or random.randrange(2**32))
    print(f"STRATA_TEST_SEED={chosen}")
    return chosen


@pytest.fixture
def killer(seed: int, tmp_path: Path) -> Iterator[Rounds]:
    rounds = Rounds(seed, tmp_path / "log")
    try:
        yield rounds
    finally:
        rounds.end()


def test_kill_at_any_moment_leaks_no_chunk_and_loses_none(killer: Rounds, fast_folder: Path) -> None:
    kept = queued = 0
    for batch in range(BATCHES):
        state = fast_folder / f"state-{batch}"  # a new one each time: its making is killed too
        for number in range(ROUNDS):
            killer.tell("kill", state, 1)
            forget_the_dead(state)
            if number == ROUNDS // 4:
                killer.tell("keep", state)
        if has_table(state / "strata.db", "objects"):
            look(state).check()
        killer.tell("replay", state)
        before = look(state)
        before.check()
        assert not before.intents
        assert {key for key in before.objects if key.startswith("kept-")} == {f"kept-{n}" for n in range(KEPT)}
        kept, queued = kept + len(before.named), queued + len(before.queue)
        killer.tell("drain", state)
        after = look(state)
        after.check()
        assert after.objects == before.objects
        assert after.files.keys() == after.named, "gc left something"
        check_swept(state)
    lines = [json.loads(line) for line in killer.log.read_text().splitlines()]
    assert not [line for line in lines if line["level"] in ("error", "warn")]
    replayed = sum(line["msg"] == "intent replayed" for line in lines)
    deleted = sum(line.get("deleted", 0) for line in lines)
    print(f"{kept} chunks kept, {queued} queued, {deleted} deleted, {replayed} intents replayed")
    assert min(kept, queued, deleted, replayed) > BATCHES, "the kills came too early or too late to prove anything"
