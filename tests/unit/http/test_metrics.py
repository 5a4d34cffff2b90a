"""State gauges, computed from a snapshot at each scrape."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry, generate_latest

from strata_daemon.http.metrics import StateCollector
from strata_daemon.leader.cycle import BACKING_OFF, CycleState
from strata_daemon.leader.handle import TermView
from strata_daemon.leader.term import Phase
from strata_daemon.ports.gc_queue import QueueDepth
from strata_daemon.supervision.snapshot import Beat, Snapshot, TermState


def _snapshot(leases: int = 1, *, depth: QueueDepth | None = None, phase: Phase = Phase.HELD) -> Snapshot:
    view = TermView(phase, "n/1/u", 28.0, token=7, began_at=90.0, renewed_at=95.0, valid_until=123.0, left_at=99.0)
    return Snapshot(
        at=100.0,
        node_id="n",
        workers={"gc": CycleState(BACKING_OFF, 99.0, step=2)},
        terms=[TermState("gc", f"gc-leader-{i}", view) for i in range(leases)],
        dead=[],
        timer_beat_at=99.5,
        depth=depth,
        depth_at=None if depth is None else 98.0,
    )


def _render(snapshot: Snapshot) -> str:
    registry = CollectorRegistry()
    registry.register(StateCollector(lambda: snapshot, lambda: 1000.0, "r"))
    return generate_latest(registry).decode()


def test_a_lease_shows_its_token_renew_age_and_validity() -> None:
    text = _render(_snapshot())
    for line in (
        'strata_daemon_lease_held{lease="gc-leader-0",worker="gc"} 1.0',
        'strata_daemon_lease_token{lease="gc-leader-0",worker="gc"} 7.0',
        'strata_daemon_lease_renew_age_seconds{lease="gc-leader-0",worker="gc"} 5.0',
        'strata_daemon_lease_valid_seconds{lease="gc-leader-0",worker="gc"} 23.0',
        'strata_daemon_worker_phase{phase="backing_off",worker="gc"} 1.0',
        'strata_daemon_worker_phase{phase="running",worker="gc"} 0.0',
        'strata_daemon_backoff_step{worker="gc"} 2.0',
    ):
        assert line in text, line


def test_the_depth_is_that_of_the_whole_queue_with_its_age() -> None:
    """Defect G1."""
    text = _render(_snapshot(depth=QueueDepth(10_000_000, 400_000, {"unknown_cluster": 600})))
    for line in (
        'strata_gc_queue_depth{region="r"} 1e+07',
        'strata_daemon_gc_oldest_age_seconds{region="r"} 600.0',
        'strata_daemon_gc_set_aside{reason="unknown_cluster",region="r"} 600.0',
        'strata_daemon_gc_depth_age_seconds{region="r"} 2.0',
    ):
        assert line in text, line


def test_a_lost_lease_is_not_shown_as_held_and_makes_health_red() -> None:
    snapshot = _snapshot(phase=Phase.LOST)
    assert "strata_daemon_lease_held{" not in _render(snapshot)
    assert any("still inside" in problem for problem in snapshot.problems(5.0))


def test_a_standby_exports_the_same_families() -> None:
    standby, leader = (_render(_snapshot(leases)) for leases in (0, 1))
    families = [{line for line in text.splitlines() if line.startswith("# TYPE")} for text in (standby, leader)]
    assert families[0] == families[1]


def test_the_process_shows_its_memory_threads_and_beats() -> None:
    text = _render(replace(_snapshot(), beats=[Beat("heartbeat", 97.0, 30.0)]))
    assert 'strata_daemon_beat_age_seconds{thread="heartbeat"} 3.0' in text
    for family in ("process_resident_memory_bytes", "process_open_fds", "strata_daemon_threads"):
        assert f"# TYPE {family} gauge" in text, family


def test_every_lease_of_many_is_shown() -> None:
    text = _render(_snapshot(1024))
    assert text.count("strata_daemon_lease_valid_seconds{") == 1024
