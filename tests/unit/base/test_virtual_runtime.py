"""What only virtual time can do: jump, freeze, kill, repeat a seed, and find a thread that blocks outside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from strata_daemon.base.runtime import virtual_baton
from strata_daemon.base.runtime.virtual import VirtualRuntime, VirtualWorld


@pytest.fixture
def world() -> Iterator[VirtualWorld]:
    made = VirtualWorld(seed=1)
    yield made
    made.close()


def exit_code(runtime: VirtualRuntime) -> int | None:
    return runtime.exit_code


class Ticker:
    """A thread that notes the instant each second."""

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.runtime = runtime
        self.began = runtime.now()
        self.ticks: list[float] = []
        runtime.spawn("ticker", self._run)

    def _run(self) -> None:
        while True:
            self.runtime.event().wait(1.0)
            self.ticks.append(self.runtime.now() - self.began)


def test_time_jumps_to_each_deadline_and_stops_where_it_was_told(world: VirtualWorld) -> None:
    ticker = Ticker(world.process("a"))
    before = world.now()
    world.advance(3.5)
    assert ticker.ticks == [1.0, 2.0, 3.0]
    assert world.now() == before + 3.5
    world.advance(0.5)
    assert ticker.ticks[-1] == 4.0


def test_a_year_without_a_waiter_passes_at_once(world: VirtualWorld) -> None:
    world.advance(86_400.0 * 365)
    assert world.now() == 1000.0 + 86_400.0 * 365


def test_what_happens_at_one_instant_is_seen_before_the_next(world: VirtualWorld) -> None:
    runtime = world.process("a")
    event, seen = runtime.event(), list[float]()

    def wait_and_note() -> None:
        event.wait(100.0)
        seen.append(runtime.now())

    def set_later() -> None:
        runtime.event().wait(7.0)
        event.set()

    began = world.now()
    runtime.spawn("waiter", wait_and_note)
    runtime.spawn("setter", set_later)
    world.advance(50.0)
    assert seen == [began + 7.0]
    assert runtime.threads() == []


def test_who_was_woken_is_told_so_although_the_event_is_cleared_before_it_runs(world: VirtualWorld) -> None:
    runtime = world.process("a")
    event, told = runtime.event(), list[bool]()
    runtime.spawn("waiter", lambda: told.append(event.wait(5.0)))
    world.settle()
    event.set()
    event.clear()
    world.settle()
    assert told == [True]


def test_run_until_stops_at_the_first_step_where_the_claim_holds_and_fails_when_it_never_does(
    world: VirtualWorld,
) -> None:
    ticker = Ticker(world.process("a"))
    assert world.run_until(lambda: len(ticker.ticks) == 2, within_s=10.0) == pytest.approx(2.0, abs=0.11)
    with pytest.raises(AssertionError, match=r"not so within 3\.0 s"):
        world.run_until(lambda: False, within_s=3.0)


def test_a_frozen_process_stands_still_and_wakes_late(world: VirtualWorld) -> None:
    frozen, other = world.process("frozen"), world.process("other")
    ticker, witness = Ticker(frozen), Ticker(other)
    world.advance(1.5)
    frozen.freeze()
    world.advance(10.0)
    assert (ticker.ticks, len(witness.ticks)) == ([1.0], 11)
    frozen.thaw()
    world.advance(1.0)
    assert ticker.ticks == [1.0, 11.5, 12.5]


def test_a_killed_process_never_runs_again_and_the_others_do(world: VirtualWorld) -> None:
    dead, other = world.process("dead"), world.process("other")
    ticker, witness = Ticker(dead), Ticker(other)
    world.advance(1.5)
    dead.kill()
    world.advance(5.0)
    assert (ticker.ticks, len(witness.ticks)) == ([1.0], 6)


def test_exit_leaves_at_once_with_its_code_and_unwinds_nothing_that_works(world: VirtualWorld) -> None:
    runtime = world.process("a")
    after: list[str] = []

    def leave() -> None:
        runtime.exit(4)
        after.append("still here")

    runtime.spawn("leaver", leave)
    ticker = Ticker(runtime)
    world.advance(3.0)
    assert (exit_code(runtime), after, ticker.ticks) == (4, [], [])


def test_exit_from_a_crash_handler_ends_the_process_and_not_the_world(world: VirtualWorld) -> None:
    runtime, other = world.process("a"), world.process("other")
    runtime.on_crash = lambda _name, _exc: runtime.exit(1)
    witness = Ticker(other)

    def crash() -> None:
        raise ValueError("told to")

    runtime.spawn("crasher", crash)
    world.advance(2.0)
    assert (exit_code(runtime), witness.ticks) == (1, [1.0, 2.0])


def test_a_last_resort_ends_the_process_exactly_at_its_instant(world: VirtualWorld) -> None:
    runtime = world.process("a")
    ticker = Ticker(runtime)
    runtime.last_resort(world.now() + 2.5)
    world.advance(2.4)
    assert exit_code(runtime) is None
    world.advance(0.1)
    assert exit_code(runtime) == 1
    world.advance(5.0)
    assert ticker.ticks == [1.0, 2.0]


def test_a_last_resort_that_is_moved_in_time_does_nothing(world: VirtualWorld) -> None:
    runtime = world.process("a")
    for _ in range(5):
        runtime.last_resort(world.now() + 2.5)
        world.advance(2.0)
    runtime.last_resort(None)
    world.advance(100.0)
    assert exit_code(runtime) is None


def test_a_last_resort_that_passed_in_a_freeze_ends_the_process_at_its_waking_before_it_runs(
    world: VirtualWorld,
) -> None:
    runtime = world.process("a")
    ticker = Ticker(runtime)
    runtime.last_resort(world.now() + 5.0)
    world.advance(1.5)
    runtime.freeze()
    world.advance(60.0)
    assert exit_code(runtime) is None
    runtime.thaw()
    world.advance(5.0)
    assert (exit_code(runtime), ticker.ticks) == (1, [1.0])


def test_the_wall_clock_of_one_process_may_step_while_time_goes_on(world: VirtualWorld) -> None:
    one, two = world.process("one"), world.process("two")
    one.step_wall(-3_600.0)
    assert (two.wall() - one.wall()).total_seconds() == 3_600.0
    assert one.now() == two.now()


def test_a_crash_that_nobody_handles_fails_the_test_that_moves_time(world: VirtualWorld) -> None:
    def crash() -> None:
        raise ValueError("told to")

    world.process("a").spawn("crasher", crash)
    with pytest.raises(ValueError, match="told to"):
        world.advance(1.0)


def test_a_thread_that_blocks_outside_its_runtime_fails_with_its_name_and_its_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(virtual_baton, "GUARD_S", 0.05)
    world = VirtualWorld()
    runtime = world.process("node")
    ticker = Ticker(runtime)
    lock = threading.Lock()
    lock.acquire()

    def block_outside() -> None:
        lock.acquire()

    thread = runtime.spawn("worker-gc", block_outside)
    with pytest.raises(AssertionError, match="node:worker-gc blocked outside the runtime(.|\n)*block_outside"):
        world.advance(1.0)
    world.close()
    lock.release()
    assert ticker.ticks == []
    assert isinstance(thread, virtual_baton.VirtualTask)
    thread.thread.join(5.0)


def test_a_thread_that_comes_back_too_late_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_baton, "GUARD_S", 0.05)
    world = VirtualWorld()
    runtime = world.process("node")
    lock = threading.Lock()
    lock.acquire()

    def block_outside() -> None:
        with lock:
            runtime.event().wait(None)

    thread = runtime.spawn("slow", block_outside)
    with pytest.raises(AssertionError, match="blocked outside the runtime"):
        world.advance(1.0)
    lock.release()
    assert isinstance(thread, virtual_baton.VirtualTask)
    thread.thread.join(5.0)
    assert not thread.thread.is_alive()
    world.close()


def test_two_threads_that_wake_each_other_for_ever_at_one_instant_fail_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_baton, "GUARD_S", 0.05)
    world = VirtualWorld()
    runtime = world.process("node")
    ping, pong, enough = runtime.event(), runtime.event(), list[int]()

    def play(mine: virtual_baton.VirtualEvent, theirs: virtual_baton.VirtualEvent) -> None:
        while not enough:
            theirs.set()
            mine.wait(1.0)
            mine.clear()

    assert isinstance(ping, virtual_baton.VirtualEvent) and isinstance(pong, virtual_baton.VirtualEvent)
    runtime.spawn("ping", lambda: play(ping, pong))
    runtime.spawn("pong", lambda: play(pong, ping))
    with pytest.raises(AssertionError, match="blocked outside the runtime, or time stands still"):
        world.advance(10.0)
    enough.append(1)


def test_close_leaves_no_thread_in_whatever_state_it_was() -> None:
    before = set(threading.enumerate())
    world = VirtualWorld()
    waiting, frozen, dead, unstarted = (world.process(name) for name in ("waiting", "frozen", "dead", "unstarted"))
    for runtime in (waiting, frozen, dead):
        Ticker(runtime)
        runtime.spawn("for-ever", lambda runtime=runtime: runtime.event().wait(None))  # type: ignore[misc]
    world.advance(2.0)
    frozen.freeze()
    dead.kill()
    Ticker(unstarted)
    world.close()
    assert set(threading.enumerate()) == before
    assert waiting.threads() == []


def test_a_finally_block_of_a_killed_thread_cannot_wait() -> None:
    world = VirtualWorld()
    runtime = world.process("a")
    waited: list[bool] = []

    def body() -> None:
        try:
            runtime.event().wait(None)
        finally:
            waited.append(runtime.event().wait(1.0))

    runtime.spawn("body", body)
    world.advance(1.0)
    world.close()
    assert waited == []


def order(seed: int) -> list[str]:
    world = VirtualWorld(seed)
    runtime = world.process("a")
    noted: list[str] = []

    def body(name: str) -> None:
        for _ in range(5):
            runtime.event().wait(1.0)
            noted.append(name)

    for name in "abcdef":
        runtime.spawn(name, lambda name=name: body(name))  # type: ignore[misc]
    world.advance(10.0)
    world.close()
    return noted


def test_a_seed_repeats_its_order_and_another_seed_has_another() -> None:
    assert order(3) == order(3)
    assert order(3) != order(4)


def test_the_thread_that_moves_time_cannot_wait_for_ever(world: VirtualWorld) -> None:
    event = world.process("a").event()
    assert event.wait(1.0) is False
    with pytest.raises(AssertionError, match="cannot wait"):
        event.wait(None)
