"""Both runtimes: the same events, queues, pools, threads and latches, in real and in virtual time.

Each claim runs inside a thread of the runtime under test, as production code does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from strata_daemon.base.runtime import Latch, Runtime, Stopping, Thread
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.base.runtime.virtual import VirtualWorld

WITHIN_S = 5.0
Body = Callable[[], None]


class Stage:
    """A runtime, and how to run a body in it to its end. `crashes`: what its threads died of."""

    def __init__(self, runtime: Runtime, finish: Callable[[Thread], None]) -> None:
        self.runtime = runtime
        self.crashes: list[tuple[str, BaseException]] = []
        self._finish = finish

    def play(self, body: Body) -> None:
        self._finish(self.runtime.spawn("body", body))
        for _, exc in self.crashes:
            raise exc


def real() -> Iterator[Stage]:
    runtime = RealRuntime()
    before = set(threading.enumerate())

    def finish(body: Thread) -> None:
        assert body.join(WITHIN_S), body.stack()
        for thread in set(threading.enumerate()) - before:
            thread.join(WITHIN_S)
            assert not thread.is_alive(), f"{thread.name} is left"

    stage = Stage(runtime, finish)
    runtime.on_crash = lambda name, exc: stage.crashes.append((name, exc))
    yield stage


def virtual() -> Iterator[Stage]:
    world = VirtualWorld(seed=7)
    runtime = world.process("node")

    def finish(_body: Thread) -> None:
        world.run_until(lambda: not runtime.threads(), WITHIN_S)

    stage = Stage(runtime, finish)
    runtime.on_crash = lambda name, exc: stage.crashes.append((name, exc))
    yield stage
    world.close()


@pytest.fixture(params=[real, virtual])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    yield from request.param()


def test_a_wait_ends_at_its_timeout_and_says_that_nothing_was_set(stage: Stage) -> None:
    def body() -> None:
        before = stage.runtime.now()
        assert stage.runtime.event().wait(0.02) is False
        assert stage.runtime.now() - before >= 0.0199

    stage.play(body)


def test_a_set_event_is_not_waited_for_and_a_cleared_one_is(stage: Stage) -> None:
    def body() -> None:
        event = stage.runtime.event()
        event.set()
        assert event.is_set()
        assert event.wait(WITHIN_S) is True
        assert event.wait(None) is True
        event.clear()
        assert not event.is_set()
        assert event.wait(0.0) is False
        assert event.wait(-1.0) is False

    stage.play(body)


def test_setting_an_event_wakes_every_waiter_before_its_timeout(stage: Stage) -> None:
    def body() -> None:
        event = stage.runtime.event()
        told: list[bool] = []
        waiters = [stage.runtime.spawn(f"waiter-{i}", lambda: told.append(event.wait(WITHIN_S))) for i in range(3)]
        before = stage.runtime.now()
        event.set()
        assert all(waiter.join(WITHIN_S) for waiter in waiters)
        assert stage.runtime.now() - before < WITHIN_S / 2
        assert told == [True, True, True]

    stage.play(body)


def test_clocks_go_on_together_and_the_wall_is_aware_utc(stage: Stage) -> None:
    def body() -> None:
        now, wall = stage.runtime.now(), stage.runtime.wall()
        stage.runtime.event().wait(0.05)
        assert wall.utcoffset() == timedelta(0)
        assert (stage.runtime.wall() - wall).total_seconds() == pytest.approx(stage.runtime.now() - now, abs=0.03)

    stage.play(body)


def test_random_numbers_differ_and_lie_between_0_and_1(stage: Stage) -> None:
    numbers = [stage.runtime.random() for _ in range(100)]
    assert len(set(numbers)) > 90
    assert all(0.0 <= number < 1.0 for number in numbers)


def test_a_queue_hands_over_everything_once_in_order_and_wakes_its_owner(stage: Stage) -> None:
    def body() -> None:
        queue = stage.runtime.queue()
        assert queue.drain() == []

        def put() -> None:
            queue.put(1)
            queue.put_all([2, 3])

        putter = stage.runtime.spawn("putter", put)
        got: list[int] = []
        while len(got) < 3:
            assert queue.wake.wait(WITHIN_S)
            queue.wake.clear()
            got += queue.drain()
        assert got == [1, 2, 3]
        assert putter.join(WITHIN_S)

    stage.play(body)


def test_two_queues_may_share_one_wake(stage: Stage) -> None:
    wake = stage.runtime.event()
    one, two = stage.runtime.queue(wake), stage.runtime.queue(wake)
    two.put("item")
    assert wake.is_set() and one.wake is two.wake
    assert (one.drain(), two.drain()) == ([], ["item"])


def test_a_thread_is_alive_until_it_ended_and_shows_where_it_is(stage: Stage) -> None:
    def body() -> None:
        gate, inside = stage.runtime.event(), stage.runtime.event()

        def stand_here() -> None:
            inside.set()
            gate.wait(WITHIN_S)

        thread = stage.runtime.spawn("worker-gc", stand_here)
        assert inside.wait(WITHIN_S)
        assert thread.is_alive()
        assert thread.join(0.01) is False
        assert "stand_here" in thread.stack()
        gate.set()
        assert thread.join(WITHIN_S) is True
        assert not thread.is_alive()
        assert thread.stack() == ""
        assert thread.name.endswith("worker-gc")

    stage.play(body)


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_escapes_a_thread_reaches_the_crash_handler_with_its_name(stage: Stage, kind: type[BaseException]) -> None:
    def crash() -> None:
        raise kind("told to")

    def body() -> None:
        assert stage.runtime.spawn("worker-gc", crash).join(WITHIN_S)

    with pytest.raises(kind, match="told to"):
        stage.play(body)
    assert [name for name, _ in stage.crashes] == ["worker-gc"]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_pool_answers_in_the_order_of_the_items_with_at_most_its_size_at_once(stage: Stage, size: int) -> None:
    running: list[int] = []
    most: list[int] = []
    lock = threading.Lock()  # guards running and most

    def square(number: int) -> int:
        with lock:
            running.append(number)
            most.append(len(running))
        stage.runtime.event().wait(0.01)
        with lock:
            running.remove(number)
        return number * number

    def body() -> None:
        pool = stage.runtime.pool("chunks", size)
        for _ in range(2):
            assert pool.map(square, range(8)) == [number * number for number in range(8)]
        assert pool.map(square, []) == []
        pool.close()

    stage.play(body)
    assert max(most) == size


@pytest.mark.parametrize("size", [2, 3])
def test_a_pool_raises_the_first_error_by_item_order_when_every_call_has_returned(stage: Stage, size: int) -> None:
    called: list[int] = []

    def work(number: int) -> int:
        stage.runtime.event().wait(0.01 if number == 1 else 0.0)
        called.append(number)
        if number in (1, 2):
            raise ValueError(f"item {number}")
        return number

    def body() -> None:
        pool = stage.runtime.pool("chunks", size)
        with pytest.raises(ValueError, match="item 1"):
            pool.map(work, range(5))
        assert sorted(called) == [0, 1, 2, 3, 4]
        pool.close()

    stage.play(body)


def test_a_pool_of_one_works_in_the_thread_of_its_caller(stage: Stage) -> None:
    def body() -> None:
        pool = stage.runtime.pool("chunks", 1)
        assert pool.map(lambda _: threading.get_ident(), range(3)) == [threading.get_ident()] * 3
        pool.close()

    stage.play(body)


def test_a_latch_wakes_whoever_waits_for_something_else(stage: Stage) -> None:
    def body() -> None:
        latch = Latch(stage.runtime.event())
        wake, gone = stage.runtime.event(), stage.runtime.event()
        latch.subscribe(wake)
        latch.subscribe(gone)
        latch.unsubscribe(gone)
        setter = stage.runtime.spawn("setter", latch.set)
        assert wake.wait(WITHIN_S)
        assert latch.is_set() and latch.wait(WITHIN_S)
        assert setter.join(WITHIN_S)
        assert not gone.is_set()

    stage.play(body)


def test_a_latch_that_is_set_already_wakes_at_the_subscription(stage: Stage) -> None:
    latch = Stopping(stage.runtime.event())
    latch.set()
    wake = stage.runtime.event()
    latch.subscribe(wake)
    assert wake.is_set()


def test_a_last_resort_that_was_called_off_does_nothing(stage: Stage) -> None:
    def body() -> None:
        stage.runtime.last_resort(stage.runtime.now() + 0.15)
        stage.runtime.last_resort(None)
        stage.runtime.event().wait(0.3)

    stage.play(body)
