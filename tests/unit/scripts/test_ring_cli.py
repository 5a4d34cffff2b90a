"""The command line prints results and sentences, and its exit codes tell how it went."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cassandra import InvalidRequest
from click.testing import CliRunner, Result
from ring import Ring, cli
from ring.cql import Shell
from ring.statements import is_complete, split, table

if TYPE_CHECKING:
    from .conftest import Kit


@pytest.fixture
def runner(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(Ring, "open", lambda folder, say: Ring(kit.folder, kit.recipe, say))
    return Runner()


class Runner:
    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli.main, arguments)


def test_up_prints_how_to_use_the_ring(runner: Runner) -> None:
    done = runner("up", "--nodes", "2", "--base-ip", "127.0.9.1", "--auth", "--set", "a=1")
    assert done.exit_code == 0
    assert "The ring is up: node 1, 2 of Cassandra" in done.stdout
    assert "contact points: 127.0.9.1:9042,127.0.9.2:9042" in done.stdout
    assert "user and password: cassandra cassandra" in done.stdout
    assert "STRATA_META_BACKEND=cassandra STRATA_CASSANDRA_HOSTS=127.0.9.1,127.0.9.2" in done.stdout
    assert "starting node 1 on 127.0.9.1:9042" in done.stderr


def test_up_twice_says_so_and_is_fine(runner: Runner, kit: Kit) -> None:
    runner("up")
    done = runner("up")
    assert done.exit_code == 0
    assert f"The ring in {kit.folder} was up already." in done.stdout


def test_status_exits_0_only_when_all_is_well(runner: Runner, kit: Kit) -> None:
    runner("up")
    assert runner("status").exit_code == 0
    assert runner("kill", "2").exit_code == 0
    kit.recipe.seen = {1: 2, 3: None}
    done = runner("status")
    assert done.exit_code == 1
    pids = [process.pid for process in kit.processes().values()]
    assert done.stdout.splitlines()[:3] == [
        f"node 1  127.0.0.1:9042  pid {pids[0]}  running, sees 2 of 3",
        f"node 2  127.0.0.2:9042  pid {pids[1]}  down",
        f"node 3  127.0.0.3:9042  pid {pids[2]}  running, does not answer",
    ]


def test_the_life_of_a_node(runner: Runner, kit: Kit) -> None:
    runner("up", "--nodes", "1")
    for call in ("pause", "resume", "restart", "kill"):
        assert runner(call, "1").exit_code == 0
    assert runner("stop", "--wipe").exit_code == 0
    assert not kit.ring.exists


def test_an_error_is_a_sentence(runner: Runner) -> None:
    done = runner("stop")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: there is no ring in ")


def test_the_folder_is_an_option_of_every_command(tmp_path: Path) -> None:
    for name in cli.main.commands:
        assert "--folder" in CliRunner().invoke(cli.main, [name, "--help"]).stdout


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        ("a", ["a"]),
        ("a; b;\n;", ["a", "b"]),
        ("a 'x;''y' ; b \"q;\" ; c $$;$$", ["a 'x;''y'", 'b "q;"', "c $$;$$"]),
        ("a -- no; end\n; // ;\nb /* ; */", ["a", "b"]),
        ("BEGIN UNLOGGED BATCH a; b; APPLY BATCH; c", ["BEGIN UNLOGGED BATCH a; b; APPLY BATCH", "c"]),
        ("BEGIN BATCH a;", ["BEGIN BATCH a"]),
    ],
)
def test_a_text_is_cut_where_statements_end(text: str, statements: list[str]) -> None:
    assert split(text) == statements


def test_a_prompt_waits_for_the_last_semicolon() -> None:
    assert not is_complete("a")
    assert not is_complete("a 'x;")
    assert not is_complete("BEGIN BATCH a;")
    assert is_complete("a; ")
    assert is_complete("BEGIN BATCH a; APPLY BATCH;")


class Session:
    """Stands in for the driver's: notes the statements, gives no rows, and knows no table."""

    column_names = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute(self, statement: str) -> Session:
        self.asked.append(statement)
        if "nowhere" in statement:
            raise InvalidRequest("no such table")
        return self

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        return iter(())


def test_the_prompt_collects_lines_until_a_statement_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["", "SELECT a", "FROM t;", "SELECT b FROM nowhere;", "exit"])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    session = Session()
    Shell(session).prompt()
    assert session.asked == ["SELECT a\nFROM t", "SELECT b FROM nowhere"]
    assert capsys.readouterr().out.splitlines()[1:] == ["done", "InvalidRequest: no such table"]


def test_a_table_lays_out_rows() -> None:
    assert table(["a", "name"], [(1, None), (b"\x01", "x\ny")]).splitlines() == [
        "a    | name",
        "-----+-----",
        "1    | null",
        "0x01 | x\\ny",
        "(2 rows)",
    ]
