"""The command line of a ring: its options, what it prints, its exit codes. What is done, `Ring` does.

Results go to the standard output, progress and errors to the standard error.
"""

from __future__ import annotations

import functools
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ring import cql as shell
from ring.errors import RingError
from ring.jars import VERSION
from ring.options import JIT, PAXOS
from ring.ring import NodeStatus, Ring

NOT_READY = 1
INTERRUPTED = 130

CONSISTENCIES = ("ONE", "TWO", "QUORUM", "LOCAL_QUORUM", "LOCAL_ONE", "ALL", "SERIAL", "LOCAL_SERIAL")


def with_ring(call: Callable[..., None]) -> Callable[..., None]:
    """Gives the command the option --folder, and its ring as the first argument."""

    @click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Where the ring lives.")
    @functools.wraps(call)
    def command(folder: Path | None, **arguments: Any) -> None:
        with _sentences():
            call(Ring.open(folder, say=lambda line: click.echo(line, err=True)), **arguments)

    return command


@contextmanager
def _sentences() -> Iterator[None]:
    try:
        yield
    except RingError as exc:
        raise click.ClickException(str(exc)) from exc
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
def main() -> None:
    """A real Cassandra ring on this machine, for tests, benches and a first try.

    It lives in .ring/ of the project, or where --folder or STRATA_RING_DIR say; its jars in .ring/jars, or where
    STRATA_RING_JARS says. Nodes are counted from 1. They outlive this command: `stop` ends them.
    """


@main.command()
@click.option("--nodes", type=int, help="How many; 0.9 GB of memory each. Default: 3.")
@click.option("--base-ip", help="The address of node 1; the others follow it. Default: 127.0.0.1.")
@click.option("--port", type=int, help="The CQL port of every node. Default: 9042.")
@click.option("--storage-port", type=int, help="The port between nodes. Default: 7000.")
@click.option("--paxos", type=click.Choice(PAXOS), help="The variant of Paxos. Default: v2.")
@click.option("--auth/--no-auth", default=None, help="Ask for user and password (cassandra, cassandra).")
@click.option("--tls/--no-tls", default=None, help="Encrypt what clients say; certificates in tls/ of the folder.")
@click.option("--heap", help="The Java heap of a node. Default: 512M.")
@click.option("--jit", type=click.Choice(JIT), help="full: more throughput later, twice the start. Default: quick.")
@click.option(
    "--jmx", type=int, is_flag=False, flag_value=7199, help="JMX of node 1 on 127.0.0.1, of node 2 one higher."
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A line of cassandra.yaml; repeatable.")
@click.option("--timeout", "timeout_s", type=float, default=240.0, show_default=True, help="Seconds to become ready.")
@with_ring
def up(ring: Ring, settings: Sequence[str], timeout_s: float, **changes: Any) -> None:
    """Start a ring, or what is down of it, and wait until every node answers and sees the others.

    What is not given is as it was for the ring in this folder.
    """
    began = time.monotonic()
    started = ring.up(timeout_s=timeout_s, settings=tuple(settings) or None, **changes)
    took_s = time.monotonic() - began
    if started:
        nodes = f"node {', '.join(map(str, started))}"
        click.echo(f"The ring is up: {nodes} of Cassandra {VERSION} started in {took_s:.0f} s, in {ring.folder}.")
    else:
        click.echo(f"The ring in {ring.folder} was up already.")
    _print_usage(ring)


@main.command()
@with_ring
def status(ring: Ring) -> None:
    """Tell how each node is; exit 1 unless all are up and see each other."""
    nodes = ring.status()
    for node in nodes:
        click.echo(_line(node, len(nodes)))
    _print_usage(ring)
    if any(node.sees != len(nodes) for node in nodes):
        sys.exit(NOT_READY)


@main.command()
@click.option("--wipe", is_flag=True, help="End them at once, and remove their data: the next `up` makes a new ring.")
@with_ring
def stop(ring: Ring, wipe: bool) -> None:
    """End every node; its data stay for the next `up`."""
    if not wipe:
        click.echo(f"stopping {len(ring.pids)} node(s), which write their memory to disk first", err=True)
    ring.stop(wipe=wipe)
    click.echo(f"The ring in {ring.folder} is {'gone' if wipe else 'stopped'}.")


@main.command()
@click.argument("number", type=int)
@with_ring
def kill(ring: Ring, number: int) -> None:
    """SIGKILL a node: a crash."""
    ring.kill(number)
    click.echo(f"node {number} is killed")


@main.command()
@click.argument("number", type=int)
@with_ring
def pause(ring: Ring, number: int) -> None:
    """SIGSTOP a node: its connections stay open and silent."""
    ring.pause(number)
    click.echo(f"node {number} is paused")


@main.command()
@click.argument("number", type=int)
@with_ring
def resume(ring: Ring, number: int) -> None:
    """SIGCONT a paused node."""
    ring.resume(number)
    click.echo(f"node {number} runs on")


@main.command()
@click.argument("number", type=int)
@click.option("--wait/--no-wait", default=True, help="Wait until it answers and its peers see it (the default).")
@with_ring
def restart(ring: Ring, number: int, wait: bool) -> None:
    """End a node if it runs, and start it on its data."""
    began = time.monotonic()
    ring.restart(number, wait=wait)
    click.echo(f"node {number} {'is up again' if wait else 'was started'} after {time.monotonic() - began:.0f} s")


@main.command()
@click.argument("statement", nargs=-1)
@click.option("--node", type=int, help="Ask this node. Default: any that runs.")
@click.option("--consistency", type=click.Choice(CONSISTENCIES), default="LOCAL_QUORUM", show_default=True)
@with_ring
def cql(ring: Ring, statement: Sequence[str], node: int | None, consistency: str) -> None:
    """Run CQL, from the arguments, the standard input, or a prompt."""
    with shell.opened(ring, node, consistency) as session:
        if not statement and sys.stdin.isatty():
            session.prompt()
            return
        for answer in session.run(" ".join(statement) or sys.stdin.read()):
            click.echo(answer)


def _line(node: NodeStatus, nodes: int) -> str:
    pid = f"pid {node.pid}" if node.pid else "not started"
    line = f"node {node.number}  {node.address}  {pid}  {node.fate.value}"
    if not node.is_running:
        return line
    return f"{line}, does not answer" if node.sees is None else f"{line}, sees {node.sees} of {nodes}"


def _print_usage(ring: Ring) -> None:
    points = ",".join(f"{host}:{ring.port}" for host in ring.hosts)
    click.echo(f"contact points: {points}")
    if ring.login:
        click.echo(f"user and password: {' '.join(ring.login)}")
    if ring.ca_file:
        click.echo(f"TLS: trust {ring.ca_file} (a client that trusts {ring.wrong_ca_file} must be refused)")
    line = " ".join(f"{name}={shlex.quote(value)}" for name, value in ring.environment.items())
    click.echo(f"for the daemon: {line}")
