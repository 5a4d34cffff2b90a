"""One gc pass: what is deleted, what is acked, what is set aside, and when it stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace

from strata_daemon.base.errors import LeaseLost, StoreUnavailable
from strata_daemon.base.log import logger
from strata_daemon.base.metrics import Metrics
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.domain.sharding import gc_shard
from strata_daemon.ports.chunks import (
    ABSENT,
    BAD_OID,
    DELETED,
    UNAVAILABLE,
    UNKNOWN_CLUSTER,
    ChunkName,
    DeleteState,
    Deletion,
)
from strata_daemon.ports.gc_queue import GCEntry
from strata_daemon.stores.memory import open_memory
from strata_daemon.workers.gc.drain import GCDrain
from strata_daemon.workers.gc.settings import GCSettings

REGION = "r"
GRACE_S = 300.0


class Clock(RealRuntime):
    """Real threads, clocks that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0
        self.worked_s = 0.0

    def now(self) -> float:
        return super().now() + self.worked_s

    def wall(self) -> datetime:
        return super().wall() + timedelta(seconds=self.ahead_s)


class Context:
    """A context that is stopping or lost when a test says so."""

    token = 1
    once = False

    def __init__(self) -> None:
        self.stop = False
        self.lost = False
        self.checks: list[float] = []

    def check(self, for_s: float = 0.0) -> None:
        self.checks.append(for_s)
        if self.lost:
            raise LeaseLost("gc-leader-0", "taken")

    def remaining_s(self) -> float:
        return math.inf

    def is_stopping(self) -> bool:
        return self.stop

    def is_lost(self) -> bool:
        return self.lost

    def wait(self, timeout_s: float | None) -> bool:
        return True

    def progress(self, count: int = 1) -> None: ...


class Chunks:
    """Deletes everything, but for what a test answers otherwise."""

    delete_time_s = 1.0
    delete_batch = 100

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.answer: Callable[[ChunkName], Deletion] = lambda chunk: DELETED

    def clusters(self) -> frozenset[str]:
        return frozenset({"default"})

    def delete(self, chunks: Sequence[ChunkName]) -> list[Deletion]:
        self.calls.append([chunk.oid for chunk in chunks])
        return [self.answer(chunk) for chunk in chunks]

    def put(self, chunk: ChunkName, body: bytes, backref: bytes) -> None: ...

    def get(self, chunk: ChunkName) -> bytes:
        raise KeyError(chunk)

    def backref(self, chunk: ChunkName) -> bytes:
        raise KeyError(chunk)

    def backrefs(self, chunks: Sequence[ChunkName]) -> list[bytes | None | StoreUnavailable]:
        return [None] * len(chunks)


class Bench:
    def __init__(self, **settings: Any) -> None:
        self.runtime = Clock()
        self.stores = open_memory(REGION, self.runtime)
        self.queue = self.stores.meta.gc_queue
        self.chunks = Chunks()
        self.ctx = Context()
        self.metrics = Metrics()
        self.settings = GCSettings(grace_s=f"{GRACE_S:.0f}s", **settings)  # type: ignore[arg-type]
        deps: Any = SimpleNamespace(
            logger=logger("gc"),
            meta=self.stores.meta,
            data=self.chunks,
            tracer=trace.get_tracer("test"),
            region=REGION,
            metrics=self.metrics,
            runtime=self.runtime,
        )
        self.drain = GCDrain(deps, self.settings)

    def now_ms(self) -> int:
        return int(RealRuntime().wall().timestamp() * 1000)

    def feed(self, count: int, *, age_s: float = GRACE_S + 60, cluster: str = "default", prefix: str = "c") -> None:
        at_ms = self.now_ms() - int(age_s * 1000)
        oids = [f"{prefix}{i}" for i in range(count)]
        self.queue.enqueue([GCEntry(REGION, gc_shard(oid), at_ms, oid, cluster, "", "") for oid in oids])

    def count(self, counter: Any, *labels: str) -> float:
        return (counter.labels(*labels) if labels else counter)._value.get()  # type: ignore[no-any-return]

    def run(self, slot: int = 0) -> None:
        self.drain.run_pass(self.ctx, slot)

    @property
    def depth(self) -> Any:
        return self.queue.depth(REGION)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.stores.close()


def test_what_is_past_its_grace_is_deleted_and_acked(bench: Bench) -> None:
    bench.feed(1200)
    bench.run()
    assert sum(map(len, bench.chunks.calls)) == 1200
    assert bench.depth.entries == 0
    assert bench.count(bench.metrics.gc_processed) == 1200


def test_what_is_in_its_grace_is_left_alone(bench: Bench) -> None:
    bench.feed(5, age_s=GRACE_S - 60)
    assert bench.drain.look([0]) == frozenset()
    bench.run()
    assert bench.chunks.calls == []
    assert bench.depth.entries == 5


def test_each_call_is_guarded_for_as_long_as_it_may_take(bench: Bench) -> None:
    bench.feed(250)
    bench.run()
    assert bench.ctx.checks == [1.0] * len(bench.chunks.calls)
    assert max(map(len, bench.chunks.calls)) <= bench.chunks.delete_batch


def test_an_absent_chunk_is_acked_and_counted(bench: Bench) -> None:
    bench.feed(3)
    bench.chunks.answer = lambda chunk: ABSENT
    bench.run()
    assert bench.depth.entries == 0
    assert bench.count(bench.metrics.gc_terminal_acks, "enoent") == 3


def test_a_slot_takes_only_its_logical_shards() -> None:
    bench = Bench(shards=4)
    bench.feed(400)
    bench.run(slot=1)
    deleted = [oid for call in bench.chunks.calls for oid in call]
    assert deleted and all(gc_shard(oid) % 4 == 1 for oid in deleted)
    assert bench.drain.look([0, 1, 2, 3]) == {0, 2, 3}
    bench.stores.close()


def test_a_page_that_fails_neither_spins_nor_stops_what_lies_behind_it(bench: Bench) -> None:
    """Defect e; V1's sibling: 600 undeletable entries in front."""
    bench.feed(600, age_s=GRACE_S + 1000, cluster="gone", prefix="bad")
    bench.feed(700)
    bench.chunks.answer = lambda chunk: (
        DELETED if chunk.cluster == "default" else Deletion(DeleteState.FAILED, UNKNOWN_CLUSTER, "no such cluster")
    )
    bench.run()
    assert bench.depth.entries == 0
    assert bench.depth.set_aside == {UNKNOWN_CLUSTER: 600}
    assert bench.count(bench.metrics.gc_failed, UNKNOWN_CLUSTER) == 600
    assert bench.count(bench.metrics.gc_processed) == 700
    calls = len(bench.chunks.calls)
    bench.run()
    assert len(bench.chunks.calls) == calls, "what was set aside is not tried again at once"


def test_what_was_set_aside_is_tried_again_after_growing_pauses(bench: Bench) -> None:
    bench.feed(1)
    bench.chunks.answer = lambda chunk: Deletion(DeleteState.FAILED, BAD_OID, "bad")
    retries = []
    bench.run()
    for _ in range(5):
        (due,) = bench.queue.due_set_aside(REGION, range(1024), 1 << 60, 9)
        retries.append(round((due.retry_at_ms - bench.now_ms()) / 1000))
        bench.queue.set_aside([due._replace(retry_at_ms=0)])
        assert bench.drain.look([0]) == {0}
        bench.run()
    assert [pytest.approx(each, abs=2) for each in retries] == [60, 300, 1800, 7200, 7200]


def test_what_was_set_aside_leaves_the_queue_once_it_can_be_deleted(bench: Bench) -> None:
    bench.feed(1)
    bench.chunks.answer = lambda chunk: Deletion(DeleteState.FAILED, UNAVAILABLE, "away")
    bench.run()
    (due,) = bench.queue.due_set_aside(REGION, range(1024), 1 << 60, 9)
    bench.queue.set_aside([due._replace(retry_at_ms=0)])
    bench.chunks.answer = lambda chunk: DELETED
    calls = len(bench.chunks.calls)
    bench.run()
    assert bench.depth.set_aside == {} and bench.depth.entries == 0
    assert len(bench.chunks.calls) == calls + 1, "it is deleted once"
    assert bench.count(bench.metrics.gc_processed) == 1


def test_what_is_gone_is_acked_within_a_second_while_a_slow_pass_goes_on(bench: Bench) -> None:
    """A crash then leaves little to be deleted again."""
    bench.feed(1500)
    left = []

    def slow(chunk: ChunkName) -> Deletion:
        left.append(bench.depth.entries)
        bench.runtime.worked_s += 0.01
        return DELETED

    bench.chunks.answer = slow
    bench.run()
    assert left[-1] <= 500 and bench.depth.entries == 0


def test_a_cluster_that_is_away_is_not_asked_for_each_entry(bench: Bench) -> None:
    bench.feed(600, cluster="away", prefix="a")
    bench.feed(600, prefix="b")
    bench.chunks.answer = lambda chunk: (
        DELETED if chunk.cluster == "default" else Deletion(DeleteState.FAILED, UNAVAILABLE, "away")
    )
    bench.run()
    asked = [oid for call in bench.chunks.calls for oid in call if oid.startswith("a")]
    assert len(asked) <= bench.settings.batch_size
    assert bench.depth.entries == 0 and bench.depth.set_aside == {UNAVAILABLE: 600}


def test_a_lost_lease_stops_the_pass_before_the_next_deletion_and_acks_nothing(bench: Bench) -> None:
    """faults.md 12."""
    bench.feed(1000)

    def lose(chunk: ChunkName) -> Deletion:
        bench.ctx.lost = True
        return DELETED

    bench.chunks.answer = lose
    with pytest.raises(LeaseLost):
        bench.run()
    assert sum(map(len, bench.chunks.calls)) <= bench.chunks.delete_batch
    assert bench.depth.entries == 1000


def test_a_stop_ends_the_pass_at_the_next_batch_boundary_with_its_acks_done(bench: Bench) -> None:
    bench.feed(1200)

    def stop(chunk: ChunkName) -> Deletion:
        bench.ctx.stop = True
        return DELETED

    bench.chunks.answer = stop
    bench.run()
    assert bench.depth.entries == 700
    assert sum(map(len, bench.chunks.calls)) == 500


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_clocks_that_disagree_stop_every_deletion(bench: Bench, ahead_s: float) -> None:
    """A host clock that is set by an hour in mid-run."""
    bench.feed(10)
    bench.feed(10, age_s=10.0, prefix="young")
    bench.runtime.ahead_s = ahead_s
    assert bench.drain.look([0]) == frozenset()
    bench.run()
    assert bench.chunks.calls == []
    bench.runtime.ahead_s = 0.0
    bench.run()
    assert bench.depth.entries == 10


def test_a_host_clock_slightly_ahead_makes_nothing_older(bench: Bench) -> None:
    bench.feed(10, age_s=GRACE_S - 30)
    bench.runtime.ahead_s = 59.0
    bench.run()
    assert bench.depth.entries == 10


def test_deletions_run_at_most_as_many_at_once_as_told() -> None:
    bench = Bench(concurrency=4)
    bench.feed(400)
    bench.run()
    assert len(bench.chunks.calls) >= 4
    assert bench.depth.entries == 0
    bench.stores.close()


def test_a_slot_whose_shards_are_due_for_a_sweep_is_busy_without_a_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a lease was taken everything is read from its beginning: to ask first what is there costs seconds."""
    bench.feed(20)
    swept: set[int] = set()
    asked: list[int] = []
    plain = bench.queue.busy_shards

    def busy_shards(region: str, shards: Sequence[int], before_ms: int) -> list[int]:
        asked.extend(shards)
        return plain(region, shards, before_ms)

    monkeypatch.setattr(type(bench.queue), "busy_shards", lambda _self, *args: busy_shards(*args))
    monkeypatch.setattr(
        type(bench.queue), "due_sweep", lambda _self, _region, shards: [s for s in shards if s not in swept]
    )
    assert bench.drain.look([0]) == frozenset({0})
    bench.run()
    assert asked == [] and bench.depth.entries == 0
    swept.update(range(1024))
    assert bench.drain.look([0]) == frozenset()
    assert asked == list(range(1024))
