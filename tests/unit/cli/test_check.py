"""What `check` prints and with which code it leaves, from plain findings; and the embedded store."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from strata_daemon import app
from strata_daemon.base.findings import Finding, Grade, fail, ok, warn
from strata_daemon.cli import main
from strata_daemon.cli.check import exit_code, show
from strata_daemon.settings import load

SETTING = Finding(Grade.FAIL, "lease times", "The TTL is too short.", is_setting=True)
WORLD = fail("keyspace", "The ring has no keyspace strata.")


def made(state_dir: Path) -> None:
    """A store as a first start leaves it."""
    with app.open_stores(load(environ={"STRATA_STATE_DIR": str(state_dir)}).settings):
        pass


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([ok("a", "b"), warn("c", "d")], 0),
        ([ok("a", "b"), SETTING], 2),
        ([WORLD], 3),
        ([SETTING, WORLD], 3),
    ],
)
def test_the_exit_code_is_that_of_a_start(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code


def test_a_pipe_gets_a_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    show([ok("clock", "It is right."), warn("paxos", "v1 " * 100), WORLD])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "warn", "FAIL"]
    assert lines[2] == "FAIL  keyspace: The ring has no keyspace strata."


def test_a_terminal_gets_colours_and_whole_sentences() -> None:
    out = io.StringIO()
    show([WORLD, ok("a", "[bold]no markup")], Console(file=out, force_terminal=True, width=60))
    assert "\x1b[1;31mFAIL" in out.getvalue()
    assert "[bold]no markup" in out.getvalue()


def test_a_state_folder_that_is_not_there_yet_is_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.outcome(["check", "--state-dir", str(tmp_path / "new")]) == 0
    assert "the first start makes it" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


def test_a_store_in_use_is_looked_at_without_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    capsys.readouterr()
    assert main.outcome(["check", "--json", "--state-dir", str(tmp_path)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["exit_code"] == 0
    assert {each["about"] for each in report["findings"]} == {
        "state folder",
        "database",
        "leases",
        "chunks",
        "lease times",
    }
    assert {each["grade"] for each in report["findings"]} == {"ok"}
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["strata.db", "leases.db"])
def test_a_file_that_is_no_database_is_named_once(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    for path in tmp_path.glob(f"{name}*"):
        path.unlink()
    (tmp_path / name).write_text("not a database at all")
    capsys.readouterr()
    assert main.outcome(["check", "--state-dir", str(tmp_path)]) == 3
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert len(failed) == 1
    assert str(tmp_path / name) in failed[0]


def test_a_chunk_folder_that_was_moved_away_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    (tmp_path / "data" / "default").rename(tmp_path / "data" / "elsewhere")
    capsys.readouterr()
    assert main.outcome(["check", "--state-dir", str(tmp_path)]) == 3
    assert "FAIL  chunks: The chunk folder" in capsys.readouterr().out


def test_times_that_the_store_can_not_keep_are_a_matter_of_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lease leaves no second for a deletion before its renewal."""
    times = {"TTL": "10s", "RENEW": "5s", "STOP_BUDGET": "0"}
    for name, value in times.items():
        monkeypatch.setenv(f"STRATA_LEASE_{name}", value)
    monkeypatch.setattr(app.checking, "delete_time_s", lambda _backend: 5.5)
    assert main.outcome(["check", "--state-dir", str(tmp_path)]) == 2
    assert "FAIL  lease times: A deletion may take 5.5 s" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["print", "apply", "check"])
def test_a_schema_is_a_matter_of_cassandra_only(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.outcome(["schema", verb]) == 2
    assert "STRATA_META_BACKEND is sqlite" in capsys.readouterr().err


def test_a_replication_that_is_no_map_is_refused_before_anything_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for written in ("3", "{'class': 'SimpleStrategy'}; DROP KEYSPACE strata", "{'dc1': '3'}", "{'class': 'x', 'a'"):
        assert main.outcome(["schema", "print", "--replication", written]) == 2
        assert "it must be a CQL map" in capsys.readouterr().err


@pytest.mark.parametrize(
    "written",
    [
        "{'class': 'NetworkTopologyStrategy', 'dc1': '3'}",
        "{'class':'SimpleStrategy','replication_factor':1}",
        "{ 'class' : 'NetworkTopologyStrategy', 'eu-west': 3, 'us-east_1': '2' }",
    ],
)
def test_a_replication_as_the_gateways_take_it_is_printed(
    written: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given, so no ring is asked."""
    monkeypatch.setenv("STRATA_META_BACKEND", "cassandra")
    monkeypatch.setenv("STRATA_CASSANDRA_HOSTS", "127.0.0.1:1")
    assert main.outcome(["schema", "print", "--with-strata", "--replication", written]) == 0
    text = capsys.readouterr().out
    assert text.count(f"WITH replication = {written};") == 2
    assert "CREATE TABLE IF NOT EXISTS strata.worker_locks" in text
    assert "CREATE TABLE IF NOT EXISTS strata_daemon.lease_tokens" in text


def test_the_schema_of_a_ring_that_is_down_is_printed_with_a_remark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STRATA_META_BACKEND", "cassandra")
    monkeypatch.setenv("STRATA_CASSANDRA_HOSTS", "127.0.0.1:1")
    assert main.outcome(["schema", "print"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("-- The ring could not be asked") and "127.0.0.1:1: Connection refused" in first
    assert "strata." not in "\n".join(line for line in rest if not line.startswith("--"))
