"""Random faults over long stretches: no two work under one lease, and somebody does after the heal."""

from __future__ import annotations

import random

from strata_daemon.leader.store import Draw, Insert, Release, Renew
from tests.sim.kit.fleet import Fleet, fleet
from tests.sim.kit.scripted_store import Act

KINDS = (Insert, Renew, Release, Draw)
ROUNDS = 25


def _one_fault(made: Fleet, rng: random.Random) -> None:
    node = made.nodes[rng.choice(sorted(made.nodes))]
    match rng.randrange(7):
        case 0:
            node.leases.is_cut = True
        case 1:
            node.freeze()
        case 2:
            node.leases.is_down = True
        case 3 | 4:
            kind = rng.choice(KINDS)
            node.leases.fault(lambda request: isinstance(request, kind), rng.choice(list(Act)), times=rng.randint(1, 4))
        case 5:
            node.leases.skew_s = 0.0
            node.runtime.step_wall(rng.choice([-3600.0, 3600.0]))
        case _:
            node.leases.wake_stalled()


def _heal(made: Fleet) -> None:
    for node in made.nodes.values():
        node.thaw()
        made.witness.still.discard(node.name)
        node.leases.heal()
        node.leases.wake_stalled()
        node.runtime.wall_offset_s = 0.0


def _restart_the_dead(made: Fleet, number: int) -> None:
    for name, node in list(made.nodes.items()):
        if node.code is not None or node.runtime.is_dead:
            made.start(f"{name.split('.')[0]}.{number}")
            made.witness.still.add(name)
            del made.nodes[name]


def test_no_two_work_under_one_lease_whatever_befalls_the_store_and_the_nodes(seed: int) -> None:
    rng = random.Random(seed)
    with fleet(seed, slots=3) as made:
        for name in "abcd":
            made.start(
                name,
                STRATA_GC_INTERVAL="1s",
                STRATA_LEASE_TTL="10s",
                STRATA_LEASE_RENEW="2s",
                STRATA_LEASE_STOP_BUDGET="1s",
            )
        for number in range(ROUNDS):
            made.feed(60, f"round-{number}")
            _one_fault(made, rng)
            made.run(rng.uniform(0.5, 12.0))
            if rng.random() < 0.3:
                made.nodes[rng.choice(sorted(made.nodes))].stop()
            made.check()
            if rng.random() < 0.6:
                _heal(made)
                made.run(rng.uniform(0.5, 4.0))
                _restart_the_dead(made, number)
        _heal(made)
        made.run(2.0)
        _restart_the_dead(made, ROUNDS)
        made.run_until(lambda: made.meta.gc_queue.depth("strata-local").entries == 0, 60.0)
        tokens = {row.lease: row.token for row in made.truth.list_leases()}
        assert set(tokens) == {"gc-leader-0", "gc-leader-1", "gc-leader-2"}
