"""A ring: nodes as processes in one folder, started, broken and ended by number. What a node is, its recipe knows.

Every call reads the state anew, so several processes may work on one ring. Starting and ending hold the folder's lock;
kill, pause, resume and the wait for readiness do not, so that a test can break what another call waits for.

It does not promise that a ring is ready a moment after it was: ask `status` or `wait`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ring import processes
from ring.errors import RingError
from ring.options import KEPT_BY_DATA, Options
from ring.processes import Fate, Process
from ring.recipe import LOGIN, Cassandra, Recipe, certificates_in, home_of
from ring.state import NAME, State, load, locked, save
from ring.waiting import Wait, views

ROOT = Path(__file__).resolve().parents[2]
CQL_PORT = 9042  # what a client takes when it is told none
READY_S = 240.0  # 20 s on an idle machine of two cores; more with tests beside it
GRACE_S = 30.0  # a node drains in about 12 s when three do at once


def silent(_: str) -> None:
    """Says nothing: for callers that show no progress."""


@dataclass(frozen=True)
class NodeStatus:
    number: int
    address: str  # host:port for CQL
    pid: int | None  # of the process that was started, though it may be gone
    fate: Fate
    sees: int | None  # how many nodes it sees up, itself included; None: it does not answer

    @property
    def is_running(self) -> bool:
        return self.fate is Fate.RUNNING


class Ring:
    """The ring in one folder. Get it by `open`; holds nothing open, so there is nothing to close."""

    def __init__(self, folder: Path, recipe: Recipe, say: Callable[[str], None] = silent) -> None:
        self.folder = folder
        self._recipe = recipe
        self._say = say

    @classmethod
    def open(
        cls, folder: Path | str | None = None, *, jars: Path | str | None = None, say: Callable[[str], None] = silent
    ) -> Ring:
        """The ring in `folder` (or STRATA_RING_DIR, or .ring of the project), whether or not it exists.

        `jars` (or STRATA_RING_JARS, or .ring/jars of the project) is the cache of jars, shared by rings.
        """
        home = Path(folder or os.environ.get("STRATA_RING_DIR") or ROOT / ".ring").absolute()
        cache = Path(jars or os.environ.get("STRATA_RING_JARS") or ROOT / ".ring" / "jars").absolute()
        return cls(home, Cassandra(home, cache, say), say)

    # What it is

    @property
    def exists(self) -> bool:
        return load(self.folder) is not None

    @property
    def options(self) -> Options:
        return self._state().options

    @property
    def hosts(self) -> list[str]:
        """The address of every node, running or not; node N is hosts[N - 1]."""
        return self.options.hosts

    @property
    def port(self) -> int:
        return self.options.port

    @property
    def pids(self) -> dict[int, int]:
        """The processes that live, paused ones included, by node."""
        return {n: process.pid for n, process in self._state().processes.items() if processes.is_alive(process)}

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password of the superuser; None without --auth."""
        return LOGIN if self.options.auth else None

    @property
    def ca_file(self) -> Path | None:
        """PEM that a client trusts; None without --tls."""
        return certificates_in(self.folder).ca if self.options.tls else None

    @property
    def wrong_ca_file(self) -> Path | None:
        """PEM with which a client must refuse this ring; None without --tls."""
        return certificates_in(self.folder).wrong_ca if self.options.tls else None

    @property
    def environment(self) -> dict[str, str]:
        """The settings of a daemon that uses this ring."""
        options = self.options
        port = "" if options.port == CQL_PORT else f":{options.port}"
        settings = {
            "STRATA_META_BACKEND": "cassandra",
            "STRATA_CASSANDRA_HOSTS": ",".join(f"{host}{port}" for host in options.hosts),
        }
        if self.login:
            settings |= dict(zip(("STRATA_CASSANDRA_USER", "STRATA_CASSANDRA_PASSWORD"), self.login, strict=True))
        if self.ca_file:
            settings["STRATA_CASSANDRA_TLS_CA_FILE"] = str(self.ca_file)
        return settings

    def log(self, number: int) -> Path:
        """Everything that a node said, over all its starts."""
        return home_of(self.folder, number) / "node.log"

    def status(self) -> list[NodeStatus]:
        state = self._state()
        fates = self._fates()
        seen = views(self._sees, [number for number, fate in fates.items() if fate is Fate.RUNNING])
        return [
            NodeStatus(n, f"{state.options.host(n)}:{state.options.port}", self._pid(state, n), fate, seen.get(n))
            for n, fate in fates.items()
        ]

    # What is done to it

    def up(self, *, timeout_s: float = READY_S, **changes: Any) -> list[int]:
        """Start what does not run, wait until all is ready; the numbers of the nodes that this call started.

        `changes` are fields of Options; what is not given is as before, or the default. A node that runs keeps its
        options, so a change needs a stopped ring, and one of KEPT_BY_DATA a ring without data.
        """
        with self._locked():
            kept = load(self.folder)
            options = (kept.options if kept else Options()).changed(changes)
            if kept:
                self._check_change(kept, options)
            started = self._start(State(options, kept.processes if kept else {}), options.numbers)
        if started:
            self._wait_for_started(started, timeout_s)
        else:
            self.wait(timeout_s)
        return list(started)

    def wait(self, timeout_s: float = READY_S) -> None:
        """Wait until every node that runs sees all that run; paused ones are left out."""
        running = [number for number, fate in self._fates().items() if fate is Fate.RUNNING]
        Wait(self._fates, self._sees, self.log, self._say).until_ready(running, timeout_s)

    def kill(self, number: int) -> None:
        """SIGKILL: a crash. Returns when the process is gone."""
        self._change(number, processes.kill)

    def pause(self, number: int) -> None:
        """SIGSTOP: its connections stay open and silent. Returns when it stands still."""
        self._change(number, processes.pause)

    def resume(self, number: int) -> None:
        """SIGCONT. Returns when the process runs; `wait` returns when its peers see it again."""
        self._change(number, processes.resume)

    def restart(self, number: int, *, wait: bool = True, grace_s: float = GRACE_S, timeout_s: float = READY_S) -> None:
        """End the node if it runs, and start it on its data."""
        with self._locked():
            state = self._state(number)
            if number in state.processes:
                processes.end([state.processes[number]], grace_s, self._say)
            started = self._start(state, [number])
        if wait:
            self._wait_for_started(started, timeout_s)

    def stop(self, *, wipe: bool = False, grace_s: float = GRACE_S) -> None:
        """End every node, orderly within `grace_s`. `wipe` ends them at once, and removes data, logs and options."""
        with self._locked():
            state = self._state()
            self._tell_foreign(state)
            processes.end(state.processes.values(), 0.0 if wipe else grace_s, silent if wipe else self._say)
            if any(map(processes.is_alive, state.processes.values())):
                raise RingError("a node is still there after SIGKILL; its disk may hang. Call this again.")
            save(self.folder, State(state.options))
            if wipe:
                for number in state.options.numbers:
                    shutil.rmtree(home_of(self.folder, number), ignore_errors=True)
                shutil.rmtree(certificates_in(self.folder).folder, ignore_errors=True)
                (self.folder / NAME).unlink()

    # How

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.folder / "lock", self._say)

    def _state(self, number: int | None = None) -> State:
        state = load(self.folder)
        if state is None:
            raise RingError(f"there is no ring in {self.folder}: `scripts/cassandra up` makes one.")
        if number is not None and number not in state.options.numbers:
            raise RingError(f"there is no node {number}: this ring has 1 to {state.options.nodes}.")
        return state

    def _check_change(self, kept: State, options: Options) -> None:
        changed = kept.options.differences(options)
        if set(changed) & set(KEPT_BY_DATA):
            raise RingError(
                f"the ring in {self.folder} was made with other options ({', '.join(changed)}). For a new ring call "
                "`stop --wipe` first, which removes its data, or choose another --folder."
            )
        if changed and any(map(processes.is_alive, kept.processes.values())):
            raise RingError(f"the ring runs with other options ({', '.join(changed)}): call `stop` first.")

    def _start(self, state: State, numbers: Sequence[int]) -> dict[int, Process]:
        """Start those of `numbers` that do not live. Under the lock; each is saved as soon as it is there."""
        fates = {number: self._fate(state, number) for number in numbers}
        self._tell_foreign(state)
        for number in (number for number in numbers if fates[number] is Fate.PAUSED):
            self._say(f"node {number} is paused and stays so: `resume {number}` wakes it")
        missing = [number for number in numbers if fates[number] in (Fate.GONE, Fate.FOREIGN)]
        started: dict[int, Process] = {}
        if missing:
            self._recipe.prepare(state.options, missing)
        for number in missing:
            self._say(f"starting node {number} on {state.options.host(number)}:{state.options.port}")
            command, environment = self._recipe.command(state.options, number)
            home_of(self.folder, number).mkdir(exist_ok=True)
            started[number] = processes.start(command, environment, self.log(number))
            state = state.with_process(number, started[number])
            save(self.folder, state)
        return started

    def _wait_for_started(self, started: Mapping[int, Process], timeout_s: float) -> None:
        """Wait for the ring; what this call started does not outlive its failure, since it would eat memory unseen."""
        try:
            Wait(self._fates, self._sees, self.log, self._say).until_ready(started, timeout_s)
        except BaseException:
            for number, process in started.items():
                if processes.kill(process):
                    self._say(f"node {number}, which this call started, was ended")
            raise

    def _change(self, number: int, change: Callable[[Process], bool]) -> None:
        state = self._state(number)
        process = state.processes.get(number)
        if process is None or not change(process):
            raise RingError(f"node {number} is {self._fate(state, number).value}: nothing was done.")

    def _sees(self, number: int) -> int | None:
        return self._recipe.sees(self.options, number)

    def _fates(self) -> dict[int, Fate]:
        state = self._state()
        return {number: self._fate(state, number) for number in state.options.numbers}

    @staticmethod
    def _fate(state: State, number: int) -> Fate:
        process = state.processes.get(number)
        return processes.fate(process) if process else Fate.GONE

    @staticmethod
    def _pid(state: State, number: int) -> int | None:
        process: Process | None = state.processes.get(number)
        return process.pid if process else None

    def _tell_foreign(self, state: State) -> None:
        for number, process in state.processes.items():
            if processes.fate(process) is Fate.FOREIGN:
                self._say(f"pid {process.pid} of node {number} belongs to another process now: it is left alone")
