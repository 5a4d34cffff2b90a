"""What our leases are in `worker_locks`, seen from outside and on the wire: the very rows that a gateway's are."""

from __future__ import annotations

import re
import time

import pytest

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.leader.store import Answer, Draw, Insert, Outcome, ReadLeases, Release, Renew, Reply, Request
from strata_daemon.leader.term import Phase
from tests.cassandra.kit.election import TTL_S, Candidate, Elections
from tests.cassandra.kit.frames import LOCAL_QUORUM, LOCAL_SERIAL
from tests.cassandra.kit.keyspaces import Keyspaces
from tests.cassandra.kit.proxy import Proxy
from tests.process.kit import eventually

LEASE = "gc-leader-0"
GO_HOLDER = "gateway-7/4242/0b4f4d5e-8f59-4b49-a6e4-7a1df7b6a111"


def _ask(candidate: Candidate, request: Request) -> Answer:
    """What the store of a candidate answers; its timer takes no part."""
    replies: list[Reply] = []
    candidate.store.submit([request], replies.extend)
    eventually(lambda: replies, 5.0)
    (answer,) = replies
    assert isinstance(answer, Answer)
    return answer


def test_a_lease_is_one_row_of_name_and_holder_and_both_live_as_long_as_its_ttl(elections: Elections) -> None:
    candidate = elections.candidate("node-a")
    handle = candidate.acquire(LEASE, within_s=4.0)
    keyspaces = elections.keyspaces
    ((name, holder, ttl_s),) = keyspaces.client.run(
        f"SELECT name, holder, TTL(holder) FROM {keyspaces.strata}.worker_locks"
    )
    assert (name, holder) == (LEASE, handle.view().holder)
    assert TTL_S - 3 <= ttl_s <= TTL_S
    assert re.fullmatch(r"node-a/\d+/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", holder)


def test_a_row_that_is_renewed_for_three_ttls_still_has_its_holder(elections: Elections) -> None:
    """faults.md 29: a TTL is a cell's; a renewal that wrote less than the INSERT would lose the rest after one TTL."""
    candidate = elections.candidate("node-a")
    keyspaces = elections.keyspaces
    holder, ttl_s = "node-a/1/ten-seconds", 3
    assert _ask(candidate, Insert(LEASE, holder, 1, ttl_s)).outcome is Outcome.APPLIED
    for turn in range(9):
        time.sleep(1.1)
        assert _ask(candidate, Renew(LEASE, holder, turn + 2, ttl_s)).outcome is Outcome.APPLIED
    read = f"SELECT name, holder, TTL(holder) FROM {keyspaces.strata}.worker_locks WHERE name = %s"
    ((name, found, left_s),) = keyspaces.client.serial(read, (LEASE,))
    assert (name, found) == (LEASE, holder) and 1 <= left_s <= ttl_s
    assert not keyspaces.take(LEASE, GO_HOLDER, 30)
    assert _ask(candidate, Release(LEASE, holder, 99)).outcome is Outcome.APPLIED
    assert keyspaces.take(LEASE, GO_HOLDER, 30), "a release left something that refuses the next INSERT"


def test_a_refusal_names_who_holds_the_lease_and_a_missing_row_nobody(elections: Elections) -> None:
    """cassandra-facts.md I.3: the answers' columns differ from case to case; all are read by position."""
    candidate = elections.candidate("node-a")
    assert elections.keyspaces.take(LEASE, GO_HOLDER, 30)
    for refused in (Insert(LEASE, "me", 1, 10), Renew(LEASE, "me", 2, 10), Release(LEASE, "me", 3)):
        answer = _ask(candidate, refused)
        assert (answer.outcome, answer.holder) == (Outcome.REFUSED, GO_HOLDER)
    for missing in (Renew("none", "me", 4, 10), Release("none", "me", 5)):
        answer = _ask(candidate, missing)
        assert (answer.outcome, answer.holder) == (Outcome.REFUSED, None)


def test_a_row_with_a_marker_and_no_holder_refuses_and_names_nobody(elections: Elections) -> None:
    """cassandra-facts.md I.0.3: somebody who releases by an UPDATE to null leaves the INSERT's marker behind."""
    candidate, keyspaces = elections.candidate("node-a"), elections.keyspaces
    assert keyspaces.take(LEASE, GO_HOLDER, 6)
    table = f"{keyspaces.strata}.worker_locks"
    assert keyspaces.client.applied(
        f"UPDATE {table} SET holder = null WHERE name = %s IF holder = %s", (LEASE, GO_HOLDER)
    )
    answer = _ask(candidate, Insert(LEASE, "me", 1, 10))
    assert (answer.outcome, answer.holder) == (Outcome.REFUSED, None)
    candidate.acquire(LEASE, within_s=9.0)


def test_tokens_are_drawn_by_a_condition_on_the_number_last_seen(elections: Elections) -> None:
    """cassandra-facts.md I.0.4, I.0.5: the column is `fence`, since `token` is reserved; a first draw writes a row."""
    candidate, keyspaces = elections.candidate("node-a"), elections.keyspaces
    read = f"SELECT fence, holder, TTL(fence) FROM {keyspaces.own}.lease_tokens WHERE name = %s"
    first = _ask(candidate, Draw(LEASE, "one", 1, None))
    assert (first.outcome, first.fence) == (Outcome.APPLIED, 1)
    assert keyspaces.client.serial(read, (LEASE,)) == [(1, "one", None)]
    blind = _ask(candidate, Draw(LEASE, "two", 1, None))
    assert (blind.outcome, blind.fence) == (Outcome.REFUSED, 1)
    second = _ask(candidate, Draw(LEASE, "two", 2, 1))
    assert (second.outcome, second.fence) == (Outcome.APPLIED, 2)
    stale = _ask(candidate, Draw("never drawn", "two", 3, 7))
    assert (stale.outcome, stale.fence) == (Outcome.REFUSED, None)


def test_a_later_term_has_a_higher_token_whoever_holds_it(elections: Elections) -> None:
    one, two = elections.candidate("node-a"), elections.candidate("node-b")
    tokens = []
    for candidate in (one, two, one):
        handle = candidate.acquire(LEASE, within_s=4.0)
        tokens.append(handle.view().token)
        assert candidate.release(handle)
    assert tokens == [1, 2, 3]


def test_every_conditional_statement_names_both_levels_on_the_wire(elections: Elections, proxy: Proxy) -> None:
    """faults.md 34: a driver once accepted the serial level and did not send it."""
    candidate = elections.candidate("node-a", proxy.hosts)
    handle = candidate.acquire(LEASE, within_s=4.0)
    candidate.wait_renewed(handle, (handle.view().renewed_at or 0.0), within_s=4.0)
    assert candidate.release(handle)
    for kind in ("acquire", "draw", "renew", "release"):
        sent = proxy.seen(kind)
        assert sent, f"no {kind} was sent"
        assert {(each.asked.level, each.asked.serial) for each in sent} == {(LOCAL_QUORUM, LOCAL_SERIAL)}
    looked = proxy.seen("look")
    assert looked and {each.asked.level for each in looked} == {LOCAL_QUORUM}


def test_a_lease_of_no_duration_is_never_sent(elections: Elections, proxy: Proxy) -> None:
    """cassandra-facts.md II 1.1: a TTL of 0 means no end at all."""
    candidate = elections.candidate("node-a", proxy.hosts)
    with pytest.raises(ValueError, match="would never end"):
        candidate.store.submit([Insert(LEASE, "me", 1, 0)], lambda _: None)
    assert proxy.seen("acquire") == []


def test_a_release_by_a_gateway_that_signals_nothing_is_seen_within_the_poll_period(
    elections: Elections, proxy: Proxy
) -> None:
    """design.md 3.6. Until then a standby sends no conditional statement (faults.md 33)."""
    keyspaces = elections.keyspaces
    candidate = elections.candidate("node-a", proxy.hosts)
    assert keyspaces.take(LEASE, GO_HOLDER, 60)
    got: list[object] = []
    waiting = candidate.runtime.spawn("waiting", lambda: got.append(candidate.acquire(LEASE, within_s=15.0)))
    eventually(lambda: len(proxy.seen("look")) >= 3, 8.0)
    assert proxy.seen("acquire", "renew", "release", "draw") == []
    released_at = candidate.runtime.now()
    assert keyspaces.release(LEASE, GO_HOLDER)
    assert waiting.join(10.0) and got
    assert candidate.runtime.now() - released_at < 1.5 + 1.5, "more than the poll period with its jitter"
    assert not keyspaces.take(LEASE, GO_HOLDER, 60), "a gateway takes no lease that we hold"


def test_a_row_without_an_end_that_is_not_ours_is_waited_for_quietly_and_said_once(
    elections: Elections, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """Bad input: it never ends by itself. Nothing is sent but the looks of the poll; the log says who is in the way."""
    keyspaces = elections.keyspaces
    candidate = elections.candidate("node-a", proxy.hosts)
    assert keyspaces.take(LEASE, "somebody/1/endless", None)
    waiting = candidate.runtime.spawn(
        "waiting", lambda: candidate.locker.session(LEASE, "gc").acquire(candidate.stopping)
    )
    time.sleep(6.0)
    looks = proxy.seen("look")
    assert 3 <= len(looks) <= 13, f"{len(looks)} looks in 6 s with a poll period of 1 s"
    assert proxy.seen("acquire", "renew", "release", "draw") == []
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "leader lease never ends"
    ]
    keyspaces.client.run(f"DELETE FROM {keyspaces.strata}.worker_locks WHERE name = %s IF EXISTS", (LEASE,))
    eventually(lambda: any(h.view().phase is Phase.HELD for h in candidate.timer.handles()), 5.0)
    candidate.stopping.set()
    assert waiting.join(5.0)


def test_a_scan_for_people_tells_our_token_and_none_for_a_gateway(elections: Elections) -> None:
    keyspaces = elections.keyspaces
    candidate = elections.candidate("node-a")
    handle = candidate.acquire(LEASE, within_s=4.0)
    assert keyspaces.take("lifecycle-leader-1", GO_HOLDER, 60)
    ours, theirs = candidate.store.list_leases()
    assert (ours.lease, ours.holder, ours.token) == (LEASE, handle.view().holder, 1)
    assert ours.drawn_at is not None and ours.remaining_s is not None and 0 < ours.remaining_s <= TTL_S
    assert (theirs.lease, theirs.holder, theirs.token) == ("lifecycle-leader-1", GO_HOLDER, None)


def test_a_read_of_leases_past_a_closed_connection_says_that_it_could_not_look(keyspaces: Keyspaces) -> None:
    """ "Not found" and "could not look" differ (faults.md 59)."""
    made = Elections(keyspaces)
    candidate = made.candidate("node-a")
    made.close()
    replies: list[Reply] = []
    fresh = type(candidate.store)(candidate.ring, 1.0)
    fresh.submit([ReadLeases((LEASE,)), Renew(LEASE, "me", 1, 10)], replies.extend)
    eventually(lambda: len(replies) == 2, 5.0)
    assert {getattr(reply, "rows", "none") for reply in replies if not isinstance(reply, Answer)} == {None}
    assert [reply.outcome for reply in replies if isinstance(reply, Answer)] == [Outcome.UNKNOWN]
    with pytest.raises(StoreUnavailable):
        fresh.probe()
