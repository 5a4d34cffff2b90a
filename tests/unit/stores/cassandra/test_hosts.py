"""Which node is asked: by what the driver knows of the nodes, here by hand, and in time by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from strata_daemon.stores.cassandra.hosts import KNOWN_S, PENALTY_S, Hosts
from tests.unit.leader.by_hand import HandRuntime

DC = "here"


@dataclass(eq=False)
class Host:
    endpoint: str
    datacenter: str = DC
    is_up: bool | None = True


@dataclass
class Metadata:
    hosts: list[Host]
    replicas: dict[bytes, list[Host]] = field(default_factory=dict)
    asked: int = 0

    def all_hosts(self) -> list[Host]:
        return list(self.hosts)

    def get_replicas(self, _keyspace: str, key: bytes) -> list[Host]:
        self.asked += 1
        return self.replicas.get(key, [])


@dataclass
class Cluster:
    metadata: Metadata


class Bench:
    """Three nodes here and one far away; `gc` lives on c, a, b and the far one, in ring order."""

    def __init__(self) -> None:
        self.a, self.b, self.c, self.far = Host("a"), Host("b"), Host("c"), Host("d", "far")
        self.metadata = Metadata([self.c, self.far, self.b, self.a])
        self.metadata.replicas[b"gc"] = [self.far, self.c, self.a, self.b]
        self.runtime = HandRuntime()
        self.hosts = Hosts(Cluster(self.metadata), DC, self.runtime)

    def ask(self, *avoid: Host) -> Host:
        return self.hosts.for_key("strata", "gc", avoid=avoid)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_first_replica_of_the_local_data_centre_is_asked_each_time(bench: Bench) -> None:
    assert [bench.ask() for _ in range(3)] == [bench.c] * 3


def test_a_node_that_failed_goes_last_for_ten_seconds(bench: Bench) -> None:
    bench.hosts.failed(bench.c)
    assert bench.ask() is bench.a
    bench.runtime.at += PENALTY_S - 0.01
    assert bench.ask() is bench.a
    bench.runtime.at += 0.01
    assert bench.ask() is bench.c


def test_a_node_that_answers_is_in_good_standing_at_once(bench: Bench) -> None:
    bench.hosts.failed(bench.c)
    bench.hosts.answered(bench.c)
    assert bench.ask() is bench.c


def test_a_repeat_goes_past_the_nodes_that_were_asked_before(bench: Bench) -> None:
    assert bench.ask(bench.c) is bench.a
    assert bench.ask(bench.c, bench.a) is bench.b


def test_when_every_node_was_asked_the_first_one_is_asked_again(bench: Bench) -> None:
    assert bench.ask(bench.c, bench.a, bench.b) is bench.c


def test_one_that_was_asked_before_is_worse_than_one_that_failed_elsewhere(bench: Bench) -> None:
    bench.hosts.failed(bench.a)
    bench.hosts.failed(bench.b)
    assert bench.ask(bench.c) is bench.a


def test_a_node_that_the_driver_holds_for_down_comes_after_one_that_is_up_or_not_known(bench: Bench) -> None:
    bench.c.is_up = False
    assert bench.ask() is bench.a
    bench.a.is_up = None
    assert bench.ask() is bench.a


def test_a_down_node_is_asked_when_there_is_no_other(bench: Bench) -> None:
    for host in (bench.a, bench.b, bench.c):
        host.is_up = False
    assert bench.ask() is bench.c


def test_replicas_are_looked_up_again_after_a_while_since_a_ring_changes(bench: Bench) -> None:
    assert bench.ask() is bench.c
    bench.metadata.replicas[b"gc"] = [bench.b, bench.a]
    bench.runtime.at += KNOWN_S - 0.01
    assert (bench.ask(), bench.metadata.asked) == (bench.c, 1)
    bench.runtime.at += 0.01
    assert (bench.ask(), bench.metadata.asked) == (bench.b, 2)


def test_a_key_whose_replicas_are_not_known_may_be_asked_of_any_local_node(bench: Bench) -> None:
    assert bench.hosts.for_key("strata", "unknown") is bench.a


def test_requests_without_a_key_go_to_the_local_nodes_in_turns_and_past_bad_ones(bench: Bench) -> None:
    assert [bench.hosts.any() for _ in range(4)] == [bench.a, bench.b, bench.c, bench.a]
    bench.hosts.failed(bench.b)
    assert {bench.hosts.any() for _ in range(6)} == {bench.a, bench.c}


def test_without_any_node_there_is_nobody_to_ask() -> None:
    hosts = Hosts(Cluster(Metadata([Host("d", "far")])), DC, HandRuntime())
    assert hosts.any() is None
    assert hosts.for_key("strata", "gc") is None
