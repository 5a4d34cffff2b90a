"""Shard leases over the nodes: fair share, hand-over, crashes of one shard, no fights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.leader.store import Insert, Release
from strata_daemon.ports.gc_queue import GCEntry
from tests.sim.kit.fleet import Fleet, fleet

TTL_S = 30.0


def _spread(made: Fleet) -> list[int]:
    held = Counter(row.holder.split("/", 1)[0] for row in made.truth.list_leases() if row.holder)
    return sorted((held[name] for name in made.nodes), reverse=True)


def test_three_nodes_come_to_22_21_21_and_after_a_kill_to_32_32(seed: int) -> None:
    """faults.md 64, defect i."""
    with fleet(seed, slots=64) as made:
        for name in "abc":
            made.start(name)
            made.run(1.0)
        made.run_until(lambda: _spread(made) == [22, 21, 21], 20.0)
        inserts = sum(len(node.leases.executed(Insert)) for node in made.nodes.values())
        made.run(60.0)
        assert _spread(made) == [22, 21, 21]
        assert sum(len(node.leases.executed(Insert)) for node in made.nodes.values()) == inserts, "fought over"
        made.nodes["b"].kill()
        made.run_until(lambda: _spread(made)[:2] == [32, 32], TTL_S + 20.0)


def test_a_node_that_stops_hands_all_its_shards_over(seed: int) -> None:
    with fleet(seed, slots=64) as made:
        for name in "ab":
            made.start(name)
        made.run(30.0)
        assert _spread(made) == [32, 32]
        made.nodes["a"].stop()
        made.run_until(lambda: len(made.nodes["b"].held()) == 64, 8.0)
        assert made.nodes["a"].code == 0


def test_a_node_gives_up_nothing_while_it_is_alone(seed: int) -> None:
    with fleet(seed, slots=16) as made:
        made.start("a")
        made.run_until(lambda: len(made.nodes["a"].held()) == 16, 3.0)
        made.run(120.0)
        assert len(made.nodes["a"].leases.executed(Insert)) == 16


def test_two_nodes_keep_one_lease_where_it_is(seed: int) -> None:
    """Nobody gives up its only lease of a worker, whatever the share."""
    with fleet(seed, slots=1) as made:
        made.start("b")
        made.run(8.0)
        made.start("a")
        made.run(60.0)
        assert made.leader() == "b"


def test_work_that_is_handed_over_in_mid_pass_is_finished_once(seed: int) -> None:
    with fleet(seed, slots=8) as made:
        made.start("a")
        made.feed(4000)
        made.run(3.0)
        made.start("b")
        made.run_until(lambda: made.meta.gc_queue.depth("strata-local").entries == 0, 120.0)
        made.run_until(lambda: _spread(made) == [4, 4], 30.0)
        deleted = [oid for node in made.nodes.values() for oid in node.chunks.deleted]
        assert len(deleted) == len(set(deleted)) == 4000


def test_one_shard_that_crashes_backs_off_alone(seed: int) -> None:
    with fleet(seed, slots=4) as made:
        node = made.start("a", STRATA_GC_INTERVAL="1s")
        poison = "chunk-0"
        bad = gc_shard(poison) % 4
        node.chunks.crash_on = poison
        made.feed(400)
        made.run(45.0)
        panics = {shard: node.daemon._metrics.worker_panics.labels("gc", str(shard))._value.get() for shard in range(4)}
        assert panics[bad] == 4 and sum(panics.values()) == 4, panics
        left = [
            entry for page in made.meta.gc_queue.pages("strata-local", range(1024), 1 << 60, 9999) for entry in page
        ]
        assert {gc_shard(entry.oid) % 4 for entry in left} == {bad}
        assert "gc" in (node.chip() or ())
        assert node.code is None


@pytest.mark.parametrize(("outage_s", "terms", "panics"), [(28.0, 1, 0), (3600.0, 2, 1)])
def test_a_pass_whose_store_does_not_answer_costs_no_lease_within_half_a_minute(
    seed: int, monkeypatch: pytest.MonkeyPatch, outage_s: float, terms: int, panics: int
) -> None:
    """faults.md 36: an outage that the lease outlives. What the store refuses for good, ends as a crash does."""
    with fleet(seed, slots=1) as made:
        node = made.start("a", STRATA_GC_INTERVAL="1s")
        made.run(3.0)
        queue = made.meta.gc_queue
        pages, ends_at = queue.pages, node.runtime.now() + outage_s

        def without_answers(*args: Any) -> Iterator[Sequence[GCEntry]]:
            if node.runtime.now() < ends_at:
                raise StoreUnavailable("scripted")
            return pages(*args)

        monkeypatch.setattr(queue, "pages", without_answers)
        made.feed(10)
        made.run(37.0)
        assert node.daemon._metrics.worker_panics.labels("gc", "0")._value.get() == panics
        assert len(node.leases.executed(Insert)) == terms
        assert (made.meta.gc_queue.depth("strata-local").entries == 0) is (panics == 0)


def test_one_shard_that_hangs_holds_up_no_other(seed: int) -> None:
    with fleet(seed, slots=4) as made:
        node = made.start("a", STRATA_GC_INTERVAL="1s")
        made.run(3.0)
        node.chunks.is_hanging = True
        made.feed(1, "stuck")
        made.run(3.0)
        node.chunks.is_hanging = False
        made.feed(200, "fine")
        made.run(20.0)
        bad = gc_shard("stuck-0") % 4
        left = [
            entry for page in made.meta.gc_queue.pages("strata-local", range(1024), 1 << 60, 9999) for entry in page
        ]
        assert {gc_shard(entry.oid) % 4 for entry in left} == {bad}


def test_after_a_loss_a_shard_is_not_contended_for_before_its_old_pass_returned(seed: int) -> None:
    with fleet(seed, slots=1) as made:
        node = made.start("a")
        made.run(3.0)
        node.chunks.is_hanging = True
        made.feed(10)
        made.run(6.0)
        assert node.is_inside()
        made.witness.still.add("a")
        made.truth.put_row("gc-leader-0", "other/1/x", 12.0)
        made.run(14.0)
        assert made.leader() is None, "free, and nobody else is there"
        inserts = len(node.leases.executed(Insert))
        made.run(5.0)
        assert len(node.leases.executed(Insert)) == inserts
        node.chunks.hang.set()
        made.run_until(lambda: made.leader() == "a", 8.0)
        made.witness.faults.clear()


@pytest.mark.parametrize("count", [1, 3])
def test_two_hundred_and_fifty_six_shards_are_all_held_within_seconds(count: int) -> None:
    with fleet(11, slots=256) as made:
        for number in range(count):
            made.start(f"n{number}")
        made.run_until(lambda: sum(_spread(made)) == 256, 10.0)


def test_a_shard_whose_deletion_can_never_fit_gives_its_lease_back(seed: int) -> None:
    """Design.md section 4: check raises, the lease is released; again and again it waits one poll in between."""
    with fleet(seed, slots=1) as made:
        node = made.start("a")
        node.chunks.delete_time_s = 29.0
        made.run(1.0)
        made.feed(10)
        made.run_until(lambda: bool(node.leases.executed(Release)), 10.0)
        made.run(60.0)
        assert made.witness.entered == []
        assert 2 <= len(node.leases.executed(Release)) <= 40
