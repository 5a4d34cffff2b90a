"""How far a long command has come: a bar on a terminal, a line each ten seconds elsewhere. The command's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EACH_S = 10.0


@contextmanager
def progress(doing: str, total: int | None, now: Callable[[], float]) -> Iterator[Callable[[int], None]]:
    """Gives what is to be called with each number of things done. `total` None: not known. `now` in seconds."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(doing, total=total)
            yield lambda count: bar.advance(task, count)
        return
    yield _lines(doing, total, now)


def _lines(doing: str, total: int | None, now: Callable[[], float]) -> Callable[[int], None]:
    done, said_at = 0, now()

    def advance(count: int) -> None:
        nonlocal done, said_at
        done += count
        if now() - said_at >= LINE_EACH_S:
            said_at = now()
            click.echo(f"{doing}: {done:,}" + ("" if total is None else f" of {total:,}"))

    return advance
