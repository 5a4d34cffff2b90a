"""A lease store for the simulation: latencies and faults by script, the truth in `MemoryLeases`.

The far side (`<node>-ring`) is a process of its own in the world: what a node has sent is executed although the node
is frozen or dead meanwhile, as on a real ring. One virtual task a store. The baton makes locks needless.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from strata_daemon.base.runtime.virtual import VirtualRuntime
from strata_daemon.leader.store import (
    Allowance,
    Answer,
    Deliver,
    LeaseRows,
    LeaseStatus,
    Outcome,
    ReadLeases,
    ReadSignals,
    Reply,
    Request,
    Signal,
    SignalRows,
)
from strata_daemon.stores.memory.leases import MemoryLeases

Latency = Callable[[random.Random], float]
Matches = Callable[[Request], bool]


def near(rng: random.Random) -> float:
    """One way to a healthy ring in the same data centre: a few milliseconds, seldom some more."""
    return rng.uniform(0.001, 0.004) if rng.random() < 0.98 else rng.uniform(0.01, 0.2)


class Act(Enum):
    """What befalls a request that a fault matches."""

    DROP_REQUEST = "never executed, never answered"
    DROP_REPLY = "executed, never answered"
    STALL = "lies in a coordinator; executed in full with a fresh TTL when that wakes, never answered"
    UNKNOWN_APPLIED = "executed, answered as unknown"
    UNKNOWN_NOT_APPLIED = "not executed, answered as unknown"


@dataclass(slots=True)
class Fault:
    """`times` None: until healed. `after_s` None (STALL only): until `wake_stalled`. `hits`: how often it struck."""

    matches: Matches
    act: Act
    times: int | None = 1
    after_s: float | None = None
    hits: int = 0


@dataclass(frozen=True, slots=True)
class Executed:
    """One request that the truth has executed. `reply` is the true one, whatever the client was told."""

    at: float
    sent_at: float
    node: str
    request: Request
    reply: Reply | None


@dataclass(frozen=True, slots=True)
class _Sent:
    request: Request
    deliver: Deliver
    at: float
    act: Act | None = None


class ScriptedLeaseStore:
    """A `LeaseStore` and `LeaseReader`. Scripted by its attributes, at any time:

    `latency` one way, per request; `allowance_now` what the store claims its clock costs; `skew_s` how far the
    executing node's clock is ahead (expiry); `is_cut` the network of this node is down both ways; `is_down` the store
    executes nothing. A whole outage is `is_down` on the store of every node.
    """

    def __init__(
        self,
        leases: MemoryLeases,
        runtime: VirtualRuntime,
        rng: random.Random | None = None,
        *,
        latency: Latency = near,
        allowance: Allowance = Allowance(0.0, 0.0),  # noqa: B008  frozen
        skew_s: float = 0.0,
    ) -> None:
        self.latency = latency
        self.allowance_now = allowance
        self.skew_s = skew_s
        self.is_cut = False
        self.is_down = False
        self.journal: list[Executed] = []
        self.stalled: list[Request] = []
        self._leases = leases
        self._runtime = runtime
        self._rng = rng if rng is not None else random.Random(runtime.random())
        self._faults: list[Fault] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._asleep: list[_Sent] = []
        self._unanswered = 0
        self._is_closed = False
        self._drained = runtime.event()
        ring = runtime.world.process(f"{runtime.name}-ring")
        self._wake = ring.event()
        ring.spawn("ring", self._run)

    # -- the script

    def fault(self, matches: Matches, act: Act, *, times: int | None = 1, after_s: float | None = None) -> Fault:
        """From now on `act` befalls the next `times` requests that match. The oldest fault that matches strikes."""
        made = Fault(matches, act, times, after_s)
        self._faults.append(made)
        return made

    def heal(self) -> None:
        """No fault, no cut, no outage from now on. What is stalled stays so until it wakes."""
        self._faults.clear()
        self.is_cut = self.is_down = False

    def wake_stalled(self) -> None:
        """Execute what stalled without an end of its own, oldest first."""
        asleep, self._asleep = self._asleep, []
        for sent in asleep:
            self._plan(0.0, lambda sent=sent: self._awake(sent))  # type: ignore[misc]

    def executed(self, *kinds: type) -> list[Executed]:
        """The journal, of these kinds of requests only."""
        return [each for each in self.journal if isinstance(each.request, kinds)]

    # -- LeaseStore and LeaseReader

    def allowance(self) -> Allowance:
        return self.allowance_now

    def submit(self, requests: Sequence[Request], deliver: Deliver) -> None:
        if self._is_closed:
            return
        for request in requests:
            self._send(request, deliver)

    def close(self, timeout_s: float) -> bool:
        """Wait for the answers that are on their way. What is stalled or lost is not waited for."""
        self._is_closed = True
        self._check_drained()
        return self._drained.wait(timeout_s)

    def list_leases(self) -> list[LeaseStatus]:
        return self._leases.list_leases()

    # -- what happens on the way

    def _send(self, request: Request, deliver: Deliver) -> None:
        sent = _Sent(request, deliver, self._runtime.now(), None)
        if self.is_cut:
            return
        fault = self._strike(request)
        act = fault.act if fault is not None else None
        if act is Act.DROP_REQUEST:
            return
        if fault is not None and act is Act.STALL:
            self.stalled.append(request)
            if fault.after_s is None:
                self._asleep.append(sent)
            else:
                self._plan(fault.after_s, lambda: self._awake(sent))
            return
        self._unanswered += 1
        sent = _Sent(request, deliver, sent.at, act)
        self._plan(self.latency(self._rng), lambda: self._arrive(sent))

    def _strike(self, request: Request) -> Fault | None:
        for fault in self._faults:
            if (fault.times is None or fault.hits < fault.times) and fault.matches(request):
                fault.hits += 1
                return fault
        return None

    def _arrive(self, sent: _Sent) -> None:
        if self.is_down:
            self._answered()
            return
        if sent.act is Act.UNKNOWN_NOT_APPLIED:
            reply: Reply | None = as_unknown(sent.request)
        else:
            reply = self._execute(sent)
            if sent.act is Act.UNKNOWN_APPLIED:
                reply = as_unknown(sent.request)
        if reply is None or sent.act is Act.DROP_REPLY:
            self._answered()
            return
        self._plan(self.latency(self._rng), lambda: self._reply(sent, reply))

    def _reply(self, sent: _Sent, reply: Reply) -> None:
        self._answered()
        if not self.is_cut:
            sent.deliver([reply])

    def _awake(self, sent: _Sent) -> None:
        self.stalled.remove(sent.request)
        self._execute(sent)

    def _execute(self, sent: _Sent) -> Reply | None:
        reply = self._leases.execute(sent.request, skew_s=self.skew_s)
        self.journal.append(Executed(self._runtime.now(), sent.at, self._runtime.name, sent.request, reply))
        return reply

    def _answered(self) -> None:
        self._unanswered -= 1
        self._check_drained()

    def _check_drained(self) -> None:
        if self._is_closed and not self._unanswered:
            self._drained.set()

    # -- the task

    def _plan(self, after_s: float, action: Callable[[], None]) -> None:
        at = self._runtime.now() + after_s
        is_soonest = not self._agenda or at < self._agenda[0][0]
        heapq.heappush(self._agenda, (at, next(self._order), action))
        if is_soonest:
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait(self._agenda[0][0] - self._runtime.now() if self._agenda else None)
            self._wake.clear()
            while self._agenda and self._agenda[0][0] <= self._runtime.now():
                heapq.heappop(self._agenda)[2]()


def as_unknown(request: Request) -> Reply | None:
    """What a client is told whose request timed out."""
    match request:
        case Signal():
            return None
        case ReadLeases():
            return LeaseRows(request, None)
        case ReadSignals():
            return SignalRows(request, None)
        case _:
            return Answer(request, Outcome.UNKNOWN, detail="scripted")
