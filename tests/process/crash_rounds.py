"""Kills writers and collectors at random moments: `python crash_rounds.py SEED LOG`, told by lines on stdin.

`kill STATE ROUNDS` does so many rounds, `keep`, `replay` and `drain STATE` run undisturbed; each is answered by a JSON
line. Children are forked off this process, which has everything imported and no thread: a round costs milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from strata_daemon import app
from strata_daemon.base import log
from strata_daemon.cli.seed import seed_with_files
from strata_daemon.settings import Settings, load
from strata_daemon.workers import intents

BUCKET = "b"
KEYS = [f"key-{number}" for number in range(6)]
CHUNK_BYTES = 1000  # so that an object of some kilobytes has several chunks
MOST_BYTES = 5 * CHUNK_BYTES
MOST_CHILDREN = 3
KEPT = 3
Role = Callable[[Settings, random.Random], None]


def settings_for(state: str) -> Settings:
    chosen = {
        "WORKERS": "gc",
        "STATE_DIR": state,
        "DAEMON_LISTEN": "off",
        "NODE_ID": f"node-{os.getpid()}",
        "GC_GRACE": "1ms",
        "GC_INTERVAL": "20ms",
        "GC_BATCH_SIZE": "5",
        "LEASE_TTL": "3s",
        "LEASE_RENEW": "1s",
        "LEASE_STOP_BUDGET": "500ms",
    }
    return load(environ={f"STRATA_{name}": value for name, value in chosen.items()}).settings


def put(settings: Settings, chance: random.Random) -> None:
    with app.open_lab(settings) as stores:
        while True:
            body = chance.randbytes(chance.randrange(MOST_BYTES))
            intents.put(stores.meta, stores.data, stores.runtime, BUCKET, chance.choice(KEYS), body)


def remove(settings: Settings, chance: random.Random) -> None:
    with app.open_lab(settings) as stores:
        while True:
            intents.remove(stores.meta, stores.runtime, BUCKET, chance.choice(KEYS))


def put_and_remove(settings: Settings, chance: random.Random) -> None:
    with app.open_lab(settings) as stores:
        while True:
            key = chance.choice(KEYS)
            body = chance.randbytes(chance.randrange(MOST_BYTES))
            intents.put(stores.meta, stores.data, stores.runtime, BUCKET, key, body)
            intents.remove(stores.meta, stores.runtime, BUCKET, key)


def fill(settings: Settings, chance: random.Random) -> None:
    """Many files in one batch."""
    with app.open_lab(settings) as stores:
        while True:
            count = chance.randrange(1, 20)
            seed_with_files(stores.meta, stores.data, stores.runtime, count, 1, lambda _: None)


def collect(settings: Settings, _: random.Random) -> None:
    app.run(settings)


def keep(settings: Settings, chance: random.Random) -> None:
    """Objects that nobody removes: whatever is killed beside them, they must stay whole."""
    with app.open_lab(settings) as stores:
        for number in range(KEPT):
            body = chance.randbytes(chance.randrange(1, MOST_BYTES))
            intents.put(stores.meta, stores.data, stores.runtime, BUCKET, f"kept-{number}", body)


def replay(settings: Settings, _: random.Random) -> None:
    with app.open_lab(settings) as stores:
        intents.replay(stores.meta, stores.data, stores.runtime)


def drain(settings: Settings, _: random.Random) -> None:
    if app.run(settings, once=True) != 0:
        raise RuntimeError("the daemon did not end cleanly")


# Each role with the longest time until it is killed, in seconds. More puts than removals, since one remover that lives
# its time leaves nothing of what a dozen killed writers put.
PUT: tuple[Role, float] = (put, 0.06)
ROLES: list[tuple[Role, float]] = [PUT, PUT, PUT, (remove, 0.06), (put_and_remove, 0.08), (fill, 0.08), (collect, 0.15)]


def fork(role: Role, state: str, number: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        role(settings_for(state), random.Random(number))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def kill_round(state: str, chance: random.Random) -> None:
    """Some roles side by side, each killed at a moment of its own."""
    chosen = chance.choices(ROLES, k=chance.randint(1, MOST_CHILDREN))
    began = time.monotonic()
    ends = sorted(
        (chance.uniform(0, longest_s), fork(role, state, chance.randrange(2**32)), role.__name__)
        for role, longest_s in chosen
    )
    for at_s, pid, name in ends:
        time.sleep(max(0.0, began + at_s - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
        _, code = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(code):
            raise RuntimeError(f"{name} ended by itself")


def undisturbed(role: Role, state: str) -> None:
    _, code = os.waitpid(fork(role, state, 0), 0)
    if code != 0:
        raise RuntimeError(f"{role.__name__} failed")


def main() -> None:
    chance = random.Random(int(sys.argv[1]))
    log_fd = os.open(Path(sys.argv[2]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    log.setup("info", "json", log_fd)
    vars(intents)["CHUNK_BYTES"] = CHUNK_BYTES
    for line in sys.stdin:
        verb, state, *rest = line.split()
        if verb == "kill":
            for _ in range(int(rest[0])):
                kill_round(state, chance)
        else:
            undisturbed({"keep": keep, "replay": replay, "drain": drain}[verb], state)
        print(json.dumps({"done": verb}), flush=True)


if __name__ == "__main__":
    main()
