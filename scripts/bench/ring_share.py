"""How many shards each of three daemons holds, how soon that is so, and that no lease goes back and forth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from figure import Bench, Figure, at_most
from processes import Failed
from ring_daemon import Daemon
from ring_ground import Ground
from ring_watching import most_acquisitions, overlaps, spans

SHARDS = 64
TTL_S = 30
NODES = ("bench-share-a", "bench-share-b", "bench-share-c")
TWO, THREE = [32, 32], [22, 21, 21]
ACQUIRE_S, BALANCE_S = 90.0, 120.0
THIRD_LIMIT_S, CRASH_LIMIT_S = 20.0, TTL_S + 20.0
QUIET_S, QUICK_QUIET_S = 20, 5  # afterwards nothing may move
LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class Move:
    """From `began` until each had its share; how often the most wanted lease was taken since; how many were lost."""

    took_s: float
    most: int
    lost: int


def share(bench: Bench, ground: Ground) -> list[Figure]:
    ground.empty()
    settings = {"GC_SHARDS": str(SHARDS), "LEASE_TTL": f"{TTL_S}s"}
    quiet_s = bench.pick(QUIET_S, QUICK_QUIET_S)
    with Daemon(ground, bench.folder / "share", NODES[0], **settings) as a:
        a.wait_leads(SHARDS, ACQUIRE_S)
        with (
            Daemon(ground, bench.folder / "share", NODES[1], **settings) as b,
        ):
            second = _moved([a, b], TWO, b.started_at, quiet_s)
            bench.say(f"32 and 32 after {second.took_s:.1f} s from the second's start")
            with Daemon(ground, bench.folder / "share", NODES[2], **settings) as c:
                third = _moved([a, b, c], THREE, c.started_at, quiet_s)
                killed_at = time.time()
                a.process.kill()
                crash = _moved([b, c], TWO, killed_at, quiet_s)
                found = overlaps(spans([b, c]))
                if found:
                    raise Failed(f"{len(found)} leases had two holders, such as {found[0]}")
    fought = max(move.most for move in (second, third, crash))
    lost = sum(move.lost for move in (second, third, crash))
    return [
        Figure(
            "ring: 22, 21, 21 of 64 shards after the third's start", "s", third.took_s, None, at_most(THIRD_LIMIT_S)
        ),
        Figure("ring: 32 and 32 after one of three was killed", "s", crash.took_s, None, at_most(CRASH_LIMIT_S)),
        Figure("ring: most changes of a lease in one of these moves", "", fought, None, at_most(1)),
        Figure("ring: leases lost in these moves", "", lost, None, at_most(0)),
    ]


def _moved(daemons: Sequence[Daemon], wanted: list[int], began: float, quiet_s: float) -> Move:
    """Wait until the counts are as wanted, in any order, and look on whether they stay so."""
    daemons[-1].wait_started()
    ends_at = time.time() + BALANCE_S
    while (held := _held(daemons)) != wanted:
        if time.time() > ends_at:
            raise Failed(f"after {BALANCE_S:g} s the daemons hold {held}, not {wanted}")
        time.sleep(LOOK_S)
    took_s = time.time() - began
    time.sleep(quiet_s)
    if (held := _held(daemons)) != wanted:
        raise Failed(f"the daemons held {wanted}, and {quiet_s:g} s later {held}")
    return Move(took_s, most_acquisitions(daemons, began), sum(len(daemon.lost(began)) for daemon in daemons))


def _held(daemons: Sequence[Daemon]) -> list[int]:
    return sorted((daemon.held() for daemon in daemons), reverse=True)
