"""Workers in their guarded cycle: back-off, losses, builds, hangs; the chip; the end of the process."""

from __future__ import annotations

import pytest

from strata_daemon.leader.context import RunContext
from strata_daemon.leader.store import Insert, Release
from strata_daemon.workers.contract import Dependencies
from tests.sim.kit.fleet import Fleet, Node, fleet
from tests.sim.kit.scripted_store import Act
from tests.sim.kit.workers import ScriptedRunner, crash, hang

TTL_S = 30.0


def _start(made: Fleet, name: str, *runners: ScriptedRunner, **settings: str) -> Node:
    settings["STRATA_WORKERS"] = "gc"
    return made.start(name, workers=[runner.worker() for runner in runners], **settings)


def _gaps(runner: ScriptedRunner) -> list[float]:
    return [round(after - before) for before, after in zip(runner.left_at, runner.ran_at[1:], strict=False)]


def test_a_worker_that_crashes_backs_off_1_5_30_120_seconds(seed: int) -> None:
    """faults.md 23."""
    with fleet(seed) as made:
        runner = ScriptedRunner("poison", crash)
        _start(made, "a", runner)
        made.run(420.0)
        assert _gaps(runner)[:5] == [1, 5, 30, 120, 120]


def test_a_crash_gives_the_lease_to_another_node(seed: int) -> None:
    """faults.md 20: the worker fails on one node only."""
    with fleet(seed) as made:
        bad, good = ScriptedRunner("w", crash), ScriptedRunner("w")
        _start(made, "a", bad)
        made.run(3.0)
        _start(made, "b", good)
        made.run_until(lambda: bool(good.ran_at), 40.0)
        assert made.leader("w-leader") == "b"


def test_a_crash_a_hang_and_a_build_error_touch_no_other_worker(seed: int) -> None:
    with fleet(seed) as made:
        well = ScriptedRunner("well")
        others = [
            ScriptedRunner("crash", crash),
            ScriptedRunner("hang", hang),
            ScriptedRunner("build", fail_build=True),
        ]
        node = _start(made, "a", well, *others)
        made.run(200.0)
        assert len(well.ran_at) == 1 and well.left_at == []
        assert node.code is None
        states = node.daemon.supervisor.states()
        assert states["build"].phase == "backing_off" and "cannot be built" in states["build"].error
        assert states["crash"].panics >= 4
        assert states["well"].phase == "running"
        assert states["hang"].phase == "running"


def test_a_build_error_releases_the_lease_and_backs_off(seed: int) -> None:
    with fleet(seed) as made:
        runner = ScriptedRunner("w", fail_build=True)
        _start(made, "a", runner)
        made.run(170.0)
        gaps = [round(after - before) for before, after in zip(runner.built_at, runner.built_at[1:], strict=False)]
        assert gaps[:4] == [1, 5, 30, 120]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_what_else_escapes_a_runner_is_backed_off_from_too(seed: int, error: type[BaseException]) -> None:
    """faults.md 22."""
    with fleet(seed) as made:

        def script(_ctx: RunContext, _deps: Dependencies) -> None:
            raise error

        runner = ScriptedRunner("w", script)
        node = _start(made, "a", runner)
        made.run(10.0)
        assert len(runner.ran_at) == 3
        assert node.code is None


def test_a_finished_run_goes_round_after_a_second(seed: int) -> None:
    with fleet(seed) as made:
        runner = ScriptedRunner("w", lambda ctx, deps: None)
        _start(made, "a", runner)
        made.run(10.0)
        assert _gaps(runner)[:4] == [1, 1, 1, 1]


def test_a_loss_restarts_at_once_with_a_higher_token(seed: int) -> None:
    with fleet(seed) as made:
        runner = ScriptedRunner("w")
        _start(made, "a", runner)
        made.run(5.0)
        made.truth.put_row("w-leader", "x/1/foreign", 8.0)
        made.run_until(lambda: len(runner.ran_at) == 2, 40.0)
        assert runner.ran_at[1] - runner.left_at[0] < 8.0 + 1.0
        tokens = [token for token in runner.tokens if token is not None]
        assert tokens == sorted(set(tokens)) and len(tokens) == 2


def test_a_term_that_ends_during_the_build_never_reaches_run(seed: int) -> None:
    with fleet(seed) as made:
        runner = ScriptedRunner("w", build_s=40.0)
        node = _start(made, "a", runner)
        made.run(5.0)
        node.leases.is_cut = True
        made.run(40.0)
        assert runner.ran_at == []
        node.leases.heal()
        made.run_until(lambda: bool(runner.ran_at), 90.0)


def test_a_runner_that_overstays_its_lost_lease_stops_the_process_with_code_4(seed: int) -> None:
    """faults.md 3: others return and release, the stack is in the log, the lost lease is not touched."""
    with fleet(seed) as made:
        stuck, well = ScriptedRunner("stuck", hang), ScriptedRunner("well")
        node = _start(made, "a", stuck, well)
        made.run(5.0)
        made.truth.put_row("stuck-leader", "other/1/x", 300.0)
        made.run_until(lambda: node.code is not None, 10.0 + 20.0 + 30.0)
        assert node.code == 4
        assert made.leader("stuck-leader") == "other"
        assert made.leader("well-leader") is None
        assert well.left_at


def test_a_runner_that_does_not_stop_keeps_its_lease_unreleased(seed: int) -> None:
    with fleet(seed) as made:
        runner = ScriptedRunner("stuck", hang)
        node = _start(made, "a", runner)
        made.run(5.0)
        node.stop()
        made.run(15.0)
        assert made.leader("stuck-leader") == "a", "renewed while its runner is inside"
        made.run_until(lambda: node.code is not None, 15.0)
        assert node.code == 4
        assert node.leases.executed(Release) == []


def test_a_thread_that_dies_ends_the_process_with_code_1(seed: int) -> None:
    """faults.md 22."""
    with fleet(seed) as made:
        runner = ScriptedRunner("w")
        node = _start(made, "a", runner)
        made.run(5.0)

        def explode() -> None:
            raise RuntimeError("told to die")

        node.runtime.spawn("doomed", explode)
        made.run_until(lambda: node.code is not None, 10.0)
        assert node.code == 1
        assert made.leader("w-leader") is None


STATES = ["waiting", "building", "working", "backing off", "store hanging", "acquiring"]


@pytest.mark.parametrize("state", STATES)
def test_a_stop_ends_the_process_cleanly_in_every_state(seed: int, state: str) -> None:
    """faults.md 50, 51; INV5."""
    with fleet(seed) as made:
        runner = ScriptedRunner(
            "w", crash if state == "backing off" else None, build_s=60.0 if state == "building" else 0
        )
        if state == "waiting":
            made.truth.put_row("w-leader", "other/1/x", None)
        node = _start(made, "a", runner)
        if state == "acquiring":
            node.leases.fault(lambda request: isinstance(request, Insert), Act.DROP_REQUEST, times=None)
        made.run(50.0 if state == "backing off" else 4.0)
        if state == "store hanging":
            node.leases.is_down = True
            made.run(3.0)
        node.stop()
        made.run_until(lambda: node.code is not None, 24.0 if state in ("store hanging", "acquiring") else 1.5)
        assert node.code == 0
        assert node.runtime.threads() == []
        if state not in ("waiting", "store hanging"):
            assert made.leader("w-leader") is None


def test_a_hanging_store_does_not_make_a_stop_longer_than_its_wait(seed: int) -> None:
    with fleet(seed) as made:
        node = _start(made, "a", ScriptedRunner("w"))
        made.run(5.0)
        node.leases.is_down = True
        node.stop()
        took_s = made.run_until(lambda: node.code is not None, 30.0)
        assert took_s < 20.0 + 5.0


def test_an_insert_that_ran_late_is_found_and_deleted(seed: int) -> None:
    """V2, facts I.0.1: it lay in a stalled coordinator and was executed in full when that woke."""
    with fleet(seed) as made:
        runner = ScriptedRunner("w")
        made.truth.put_row("w-leader", "other/1/x", 4.0)
        node = _start(made, "a", runner)
        node.leases.fault(lambda request: isinstance(request, Insert), Act.STALL, times=1)
        made.run_until(lambda: bool(runner.ran_at), 30.0)
        node.leases.wake_stalled()
        made.run(5.0)
        assert made.leader("w-leader") == "a" and runner.left_at == []
        node.stop()
        made.run(3.0)
        assert made.leader("w-leader") is None


def test_an_attempt_whose_insert_ran_after_it_was_given_up_locks_nobody_out(seed: int) -> None:
    """S1, V2: the phantom lease of a timed-out acquire."""
    with fleet(seed) as made:
        runner = ScriptedRunner("w")
        made.truth.put_row("w-leader", "other/1/x", 4.0)
        node = _start(made, "a", runner)
        node.leases.fault(lambda request: isinstance(request, Insert), Act.STALL, times=3)
        made.run_until(lambda: bool(node.leases.executed(Release)), 30.0)
        assert runner.ran_at == []
        node.leases.wake_stalled()
        made.run_until(lambda: bool(runner.ran_at), 8.0)


def test_the_chip_follows_the_lease_and_shrinks_before_it_goes(seed: int) -> None:
    """INV3, S2, S4, V10: at most two flips a cycle."""
    with fleet(seed) as made:
        node = made.start("a")
        chips: list[tuple[bool, bool]] = [(False, False)]
        for _ in range(30):
            made.run(0.1)
            chips.append(("gc" in (node.chip() or ()), bool(node.held())))
        node.stop()
        for _ in range(30):
            made.run(0.02)
            chips.append(("gc" in (node.chip() or ()), bool(node.held())))
        assert chips[30] == (True, True)
        assert all(held for chip, held in chips if chip), "the chip claims more than the truth"
        flips = [chip for chip, _ in chips]
        assert sum(before != after for before, after in zip(flips, flips[1:], strict=False)) == 2


def test_two_live_processes_with_one_node_id_both_stay_visible(seed: int) -> None:
    """faults.md 7."""
    with fleet(seed) as made:
        made.start("twin")
        first = made.nodes["twin"]
        made.run(2.0)
        made.start("other", STRATA_NODE_ID="twin")
        made.run(15.0)
        rows = {row.node_id: row for row in made.meta.nodes.read()}
        assert set(rows) == {"twin", "twin-2"}
        assert first.daemon.heartbeat.node_id() == "twin"
        assert len(made.truth.list_leases()) == 1
