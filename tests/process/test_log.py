"""What stands in the log: one line a transition of a lease, JSON for programs, text for people (issue part 10)."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.process.kit import (
    FAST,
    PRODUCT,
    Daemons,
    Process,
    chunk_files,
    environment,
    eventually,
    execute,
    lease_rows,
    seed,
)

TRANSITIONS = ("leader acquired", "leader released", "leader lease lost")


def transitions(daemon: Process) -> list[dict[str, Any]]:
    return [line for line in daemon.lines() if line["msg"] in TRANSITIONS]


def test_each_transition_is_one_line_with_all_its_fields(daemons: Daemons, state: Path) -> None:
    seed(state, 50)
    daemon = daemons.leading(state)
    ((lease, holder),) = lease_rows(state)
    eventually(lambda: not chunk_files(state), 5)
    daemon.stop()
    own = {"worker": "gc", "lease": lease, "name": lease, "holder": holder, "token": 1}
    seen = [{name: line.get(name) for name in ("msg", "reason", *own)} for line in transitions(daemon)]
    assert seen == [
        {"msg": "leader acquired", "reason": "free", **own},
        {"msg": "leader released", "reason": "released", **own},
    ]
    assert re.fullmatch(rf"one/{daemon.popen.pid}/[0-9a-f-]{{36}}", holder)


def test_lost_lease_is_one_line_and_the_next_term_has_a_new_holder_and_a_higher_token(
    daemons: Daemons, state: Path
) -> None:
    daemon = daemons.leading(state)
    execute(state / "leases.db", "UPDATE leases SET holder = 'somebody/1/else'")
    daemon.wait_said("leader lease lost", within_s=3)
    execute(state / "leases.db", "DELETE FROM leases")
    daemon.wait_said("leader acquired", 2, within_s=5)
    daemon.stop()
    lines = transitions(daemon)
    assert [line["msg"] for line in lines] == [
        "leader acquired",
        "leader lease lost",
        "leader acquired",
        "leader released",
    ]
    first, lost, second, released = lines
    assert (lost["holder"], lost["token"]) == (first["holder"], first["token"])
    assert (released["holder"], released["token"]) == (second["holder"], second["token"])
    assert second["holder"] != first["holder"] and second["token"] > first["token"]
    assert lost["level"] == "warn" and lost["reason"] and lost["worker"] == "gc" and lost["name"] == lost["lease"]


def test_shards_have_a_line_each(daemons: Daemons, state: Path) -> None:
    daemon = daemons.run(state, GC_SHARDS="4")
    daemon.wait_said("leader acquired", 4)
    daemon.stop()
    leases = [f"gc-leader-{shard}" for shard in range(4)]
    for msg in ("leader acquired", "leader released"):
        assert sorted(line["lease"] for line in daemon.said(msg)) == leases


def test_healthy_run_with_work_writes_nothing_to_stderr_and_no_warning(daemons: Daemons, state: Path) -> None:
    daemon = daemons.run(state, "--sample", DAEMON_LISTEN="127.0.0.1:0")
    eventually(lambda: sum(line["deleted"] for line in daemon.said("gc pass finished")) >= 200, 15)
    daemon.stop()
    assert not chunk_files(state)
    assert {line["level"] for line in daemon.lines()} == {"info"}


def test_terminal_gets_text(state: Path, tmp_path: Path) -> None:
    """The daemon writes to a pseudo terminal, read here to its end."""
    ours, theirs = pty.openpty()
    errors = tmp_path / "errors"
    with errors.open("wb") as sink:
        process = subprocess.Popen(
            [*PRODUCT, "run"],
            env=environment(state, **FAST),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=sink,
            start_new_session=True,
        )
    os.close(theirs)
    try:
        shown = b""
        while b"leader acquired" not in shown:
            assert (more := read(ours)), shown
            shown += more
        process.send_signal(signal.SIGINT)
        while more := read(ours):
            shown += more
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait(5)
        os.close(ours)
    plain = re.sub(r"\x1b\[\d*m", "", shown.decode())
    assert plain != shown.decode(), "no colour on a terminal"
    assert errors.read_bytes() == b""
    for line in plain.split("\r\n")[:-1]:
        assert re.match(r"\d\d:\d\d:\d\d\.\d{3} (info |warn |error) \w", line), line
    assert re.search(r"leader acquired worker=gc lease=gc-leader-0 holder=one/\d+/\S+ token=1 ", plain)


def read(terminal: int) -> bytes:
    """What comes next; nothing once the other side is closed, which Linux tells as EIO."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
