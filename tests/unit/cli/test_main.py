"""Which error becomes which exit code."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from strata_daemon.base.errors import ConfigError, PreflightError, StoreUnavailable
from strata_daemon.cli import main


@pytest.fixture
def raises(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException]]:
    """What the command raises; nothing yet."""
    errors: list[BaseException] = []

    @click.command()
    @click.pass_context
    def failing(ctx: click.Context) -> None:
        if errors:
            raise errors[0]
        ctx.exit(4)

    monkeypatch.setattr(main.LateCommands, "get_command", lambda *_: failing)
    yield errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(["one.", "two."]), 2),
        (PreflightError("no."), 3),
        (StoreUnavailable("no."), 3),
        (KeyboardInterrupt(), 130),
        (RuntimeError("no"), 1),
        (click.UsageError("no"), 2),
    ],
)
def test_error_becomes_its_exit_code(
    raises: list[BaseException], error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    raises.append(error)
    assert main.outcome(["run"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_each_problem_has_its_line(raises: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    raises.append(ConfigError(["one.", "two."]))
    main.outcome(["run"])
    assert capsys.readouterr().err == "strata-daemon: one.\nstrata-daemon: two.\n"


def test_code_of_the_daemon_is_the_code_of_the_process(raises: list[BaseException]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.main(["run"])
    assert caught.value.code == 4
