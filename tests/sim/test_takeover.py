"""Who leads, and when another does: stop, crash, pause, outage, partition. Whole daemons, with the witness."""

from __future__ import annotations

import pytest

from strata_daemon.leader.store import Insert, Release, Renew
from tests.sim.kit.fleet import Fleet, fleet

LEASE = "gc-leader-0"
TTL_S, RENEW_S, POLL_S, STOP_S = 30.0, 10.0, 5.0, 2.0
RETRY_S = 2.0


def _led(made: Fleet, *names: str) -> str:
    """Start these nodes and wait until one leads; its name."""
    for name in names:
        made.start(name)
    made.run_until(lambda: made.leader() is not None, 10.0)
    leader = made.leader()
    assert leader is not None
    return leader


def test_one_of_five_works_and_the_others_wait(seed: int) -> None:
    with fleet(seed) as made:
        leader = _led(made, *"abcde")
        made.feed(500)
        made.run(60.0)
        assert {stamp.node for stamp in made.witness.entered} == {leader}
        assert made.meta.gc_queue.depth("strata-local").entries == 0


def test_a_standby_sends_no_conditional_statement_while_the_holder_lives(seed: int) -> None:
    """Defect i."""
    with fleet(seed) as made:
        leader = _led(made, "a", "b")
        made.run(5.0)
        standby = made.nodes["b" if leader == "a" else "a"]
        before = len(standby.leases.executed(Insert))
        made.run(120.0)
        assert len(standby.leases.executed(Insert)) == before


def test_a_clean_stop_hands_over_within_a_second_and_a_half(seed: int) -> None:
    """INV2, INV5: the row goes after the runner left."""
    with fleet(seed) as made:
        leader = _led(made, "a", "b")
        made.run(8.0)
        made.feed(300)
        made.run(0.5)
        made.nodes[leader].stop()
        took_s = made.run_until(lambda: made.witness.last_by(LEASE) not in (None, leader), 5.0)
        assert took_s < 1.5
        made.run_until(lambda: made.nodes[leader].code == 0, 5.0)
        assert made.nodes[leader].runtime.threads() == []
        assert made.nodes[leader].chip() is None


def test_a_killed_leader_is_followed_after_its_ttl(seed: int) -> None:
    with fleet(seed) as made:
        leader = _led(made, "a", "b", "c")
        made.run(17.0)
        made.feed(300)
        made.nodes[leader].kill()
        took_s = made.run_until(lambda: made.witness.last_by(LEASE) not in (None, leader), TTL_S + 10)
        assert TTL_S - RENEW_S - RETRY_S <= took_s <= TTL_S + RETRY_S + 1.5


def test_a_frozen_leader_that_wakes_does_nothing_more(seed: int) -> None:
    """faults.md 11, defect c, V4: frozen in the middle of a batch for two TTLs."""
    with fleet(seed) as made:
        leader = _led(made, "a", "b")
        made.run(3.0)
        made.feed(2000)
        made.run_until(made.nodes[leader].is_inside, 10.0)
        made.nodes[leader].freeze()
        made.run(2 * TTL_S)
        other = made.leader()
        assert other not in (None, leader)
        before = sum(stamp.node == leader for stamp in made.witness.entered)
        made.nodes[leader].thaw()
        made.run(5.0)
        assert sum(stamp.node == leader for stamp in made.witness.entered) == before
        assert made.leader() == other


def test_a_leader_that_was_paused_past_the_last_resort_ends_at_its_waking(seed: int) -> None:
    with fleet(seed) as made:
        leader = _led(made, "a", "b")
        made.run(3.0)
        made.nodes[leader].freeze()
        made.run(TTL_S + 20 + 10)
        made.nodes[leader].thaw()
        made.run(1.0)
        assert made.nodes[leader].code == 1


@pytest.mark.parametrize("outage_s", [5.0, 15.0])
def test_an_outage_shorter_than_what_is_left_loses_no_term(seed: int, outage_s: float) -> None:
    """Defect b, V3, faults.md 36."""
    with fleet(seed) as made:
        leader = _led(made, "a", "b")
        made.run(9.0)
        token = made.truth.list_leases()[0].token
        for node in made.nodes.values():
            node.leases.is_down = True
        made.run(outage_s)
        for node in made.nodes.values():
            node.leases.heal()
        made.run(30.0)
        assert made.leader() == leader
        assert made.truth.list_leases()[0].token == token


def test_every_runner_stops_by_its_own_deadline_and_one_leads_again_after_the_outage(seed: int) -> None:
    """faults.md 2, 17."""
    with fleet(seed) as made:
        _led(made, "a", "b", "c")
        made.feed(10_000)
        made.run(10.0)
        for node in made.nodes.values():
            node.leases.is_down = True
        made.run(TTL_S)
        last = max(stamp.at for stamp in made.witness.entered)
        assert not any(node.is_inside() for node in made.nodes.values())
        made.run(60.0)
        assert max(stamp.at for stamp in made.witness.entered) == last
        for node in made.nodes.values():
            node.leases.heal()
        made.feed(100, "later")
        made.run_until(lambda: max(stamp.at for stamp in made.witness.entered) > last, POLL_S + RETRY_S)


def test_a_leader_cut_off_stops_before_another_begins(seed: int) -> None:
    with fleet(seed) as made:
        leader = _led(made, "a", "b")
        made.feed(5000)
        made.run(5.0)
        made.nodes[leader].leases.is_cut = True
        made.run_until(lambda: made.leader() not in (None, leader), TTL_S + POLL_S)
        made.run(20.0)
        made.nodes[leader].leases.heal()
        made.run(20.0)
        assert made.leader() != leader


def test_a_cut_repeated_ten_times_leaves_a_candidate_each_time(seed: int) -> None:
    """faults.md 17: an election that is one-shot."""
    with fleet(seed) as made:
        _led(made, "a")
        for _ in range(10):
            made.nodes["a"].leases.is_cut = True
            made.run(1.2 * TTL_S)
            made.nodes["a"].leases.heal()
            made.run_until(lambda: bool(made.nodes["a"].held()), TTL_S + POLL_S + RETRY_S)


def test_a_holder_written_by_a_foreign_hand_ends_the_term_at_the_next_renewal(seed: int) -> None:
    """faults.md 1."""
    with fleet(seed) as made:
        leader = _led(made, "a")
        made.feed(2000)
        made.run(4.0)
        made.witness.still.add(leader)  # the foreign hand takes no notice of whoever is inside
        made.truth.put_row(LEASE, "gateway/1/x", 20.0)
        made.run(RENEW_S + 1)
        made.witness.still.discard(leader)
        made.witness.faults.clear()
        assert made.leader() == "gateway"
        made.run(5.0)
        made.check()
        made.run_until(lambda: made.leader() == "a", 20.0)


def test_no_renewal_is_sent_after_a_release(seed: int) -> None:
    """faults.md 31."""
    with fleet(seed) as made:
        leader = _led(made, "a", "b")
        made.run(12.0)
        made.nodes[leader].stop()
        made.run(5.0)
        journal = made.nodes[leader].leases.executed(Renew, Release)
        released = [i for i, each in enumerate(journal) if isinstance(each.request, Release)]
        assert released and not any(isinstance(each.request, Renew) for each in journal[released[0] :])


def test_a_lease_without_an_end_that_is_not_ours_is_left_alone_without_a_loop(seed: int) -> None:
    with fleet(seed) as made:
        made.truth.put_row(LEASE, "somebody/1/x", None)
        made.start("a")
        made.run(120.0)
        assert made.leader() == "somebody"
        assert made.nodes["a"].leases.executed(Insert) == []


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_wall_clock_that_is_set_changes_no_leadership(seed: int, step_s: float) -> None:
    """faults.md 8."""
    with fleet(seed) as made:
        leader = _led(made, "a", "b")
        made.run(8.0)
        for node in made.nodes.values():
            node.runtime.step_wall(step_s)
        made.feed(100)
        made.run(60.0)
        assert made.leader() == leader
        assert made.meta.gc_queue.depth("strata-local").entries == 100, "nothing is deleted while the clocks disagree"
