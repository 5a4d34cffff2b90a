"""Every gc queue against a model of it, under any order of calls. The model is two dicts and a sort, no SQL."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.ports.gc_queue import GCEntry, GCQueue, QueueDepth, SetAside
from strata_daemon.stores.memory import open_memory
from strata_daemon.stores.sqlite import open_sqlite

REGION, OTHER = "r", "s"
SHARDS = (0, 1, 7, 1023)
OIDS = ("a", "b", "schlüssel", "\udcff\udcfe", "a\x00b", "", "\U0001f600", "z" * 300)
Key = tuple[str, int, int, str]

entries = st.builds(
    GCEntry,
    region=st.sampled_from([REGION, REGION, REGION, OTHER]),
    shard=st.sampled_from(SHARDS),
    enqueued_at_ms=st.integers(1, 4),
    oid=st.sampled_from(OIDS),
    cluster=st.just("default"),
    pool=st.just("p"),
    namespace=st.just(""),
)
batches = st.lists(entries, max_size=6)
shard_sets = st.lists(st.sampled_from(SHARDS), unique=True)


def _order(entry: GCEntry) -> tuple[int, int, bytes]:
    return entry.shard, entry.enqueued_at_ms, entry.oid.encode("utf-8", "surrogateescape")


class QueueMachine(RuleBasedStateMachine):
    """`backend` is set by the subclass that the test makes."""

    backend = ""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.queued: dict[Key, GCEntry] = {}
        self.aside: dict[Key, SetAside] = {}

    @initialize()
    def open(self) -> None:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        runtime = RealRuntime()
        stores = open_memory(REGION, runtime) if self.backend == "memory" else open_sqlite(folder, REGION, runtime)
        self.stack.callback(stores.close)
        self.queue: GCQueue = stores.meta.gc_queue

    def teardown(self) -> None:
        self.stack.close()

    @rule(batch=batches)
    def enqueue(self, batch: list[GCEntry]) -> None:
        self.queue.enqueue(batch)
        for entry in batch:
            if entry[:4] not in self.aside:
                self.queued.setdefault(entry[:4], entry)

    @rule(batch=batches)
    def ack(self, batch: list[GCEntry]) -> None:
        self.queue.ack(batch)
        for entry in batch:
            self.queued.pop(entry[:4], None)
            self.aside.pop(entry[:4], None)

    @rule(batch=batches, reason=st.sampled_from(["x", "y"]), tries=st.integers(1, 3), retry_at_ms=st.integers(1, 4))
    def set_aside(self, batch: list[GCEntry], reason: str, tries: int, retry_at_ms: int) -> None:
        records = [SetAside(entry, reason, tries, retry_at_ms) for entry in batch]
        kept = 0
        for record in records:
            key = record.entry[:4]
            if key in self.aside or self.queued.pop(key, None) is not None:
                self.aside[key] = record
                kept += 1
        assert self.queue.set_aside(records) == kept

    @rule(shards=shard_sets, before_ms=st.integers(0, 5), limit=st.integers(1, 5))
    def read_in_pages(self, shards: list[int], before_ms: int, limit: int) -> None:
        expected = sorted(
            (
                entry
                for entry in self.queued.values()
                if entry.region == REGION and entry.shard in shards and entry.enqueued_at_ms <= before_ms
            ),
            key=_order,
        )
        seen: list[GCEntry] = []
        for page in self.queue.pages(REGION, shards, before_ms, limit):
            assert 1 <= len(page) <= limit
            seen += page
            assert len(seen) <= len(expected)
        assert seen == expected

    @rule(shards=shard_sets, now_ms=st.integers(0, 5), limit=st.integers(1, 5))
    def look_for_due(self, shards: list[int], now_ms: int, limit: int) -> None:
        expected = {
            key: each
            for key, each in self.aside.items()
            if key[0] == REGION and key[1] in shards and each.retry_at_ms <= now_ms
        }
        due = self.queue.due_set_aside(REGION, shards, now_ms, limit)
        assert all(expected[each.entry[:4]] == each for each in due)
        assert len({each.entry[:4] for each in due}) == len(due) == min(limit, len(expected))
        soonest = sorted(each.retry_at_ms for each in expected.values())
        assert [each.retry_at_ms for each in due] == soonest[: len(due)]

    @rule(shards=shard_sets, before_ms=st.integers(0, 5))
    def look_for_busy(self, shards: list[int], before_ms: int) -> None:
        busy = {e.shard for e in self.queued.values() if e.region == REGION and e.enqueued_at_ms <= before_ms}
        assert self.queue.busy_shards(REGION, shards, before_ms) == sorted(busy & set(shards))

    @invariant()
    def the_depth_is_true(self) -> None:
        ours = [entry.enqueued_at_ms for entry in self.queued.values() if entry.region == REGION]
        reasons: dict[str, int] = {}
        for each in self.aside.values():
            if each.entry.region == REGION:
                reasons[each.reason] = reasons.get(each.reason, 0) + 1
        assert self.queue.depth(REGION) == QueueDepth(len(ours), min(ours, default=None), reasons)


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_a_queue_does_as_its_model(backend: str) -> None:
    machine = type("Machine", (QueueMachine,), {"backend": backend})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100 if backend == "memory" else 20,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
