"""What election needs of a store: batches of requests in, answers out, never a wait in between.

Implementations live under `stores/`. No rule of a term lives here: those are in `term`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol


class Outcome(Enum):
    """The three outcomes of a conditional statement (design.md section 4)."""

    APPLIED = "applied"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Insert:
    """`INSERT ... IF NOT EXISTS USING TTL ttl_s`: take a lease that nobody holds.

    Refused: `Answer.holder` is who holds it (None: a row without a holder).
    """

    lease: str
    holder: str
    try_no: int
    ttl_s: int


@dataclass(frozen=True, slots=True)
class Renew:
    """`UPDATE ... USING TTL ttl_s ... IF holder = me`. Refused: another holder, or no row (`Answer.holder` None)."""

    lease: str
    holder: str
    try_no: int
    ttl_s: int


@dataclass(frozen=True, slots=True)
class Release:
    """`DELETE ... IF holder = me`. Refused: another holder, or no row any more (`Answer.holder` None)."""

    lease: str
    holder: str
    try_no: int


@dataclass(frozen=True, slots=True)
class Draw:
    """`SET fence = seen + 1 ... IF fence = seen` in a table without TTL; `seen` None means: no row yet, the first is 1.

    Applied: `Answer.fence` is the number drawn, durable. Refused: `Answer.fence` is the number that stands there
    (None: no row). `drawn_at` and `holder` are kept beside the number for people to read.
    """

    lease: str
    holder: str
    try_no: int
    seen: int | None
    drawn_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """Tell every candidate that a lease was released: bumps the sender's own row of `signals`.

    `surplus` says that the lease was given up for somebody below its share (design.md, fair share).
    A row keeps the last 2,048 releases of its node (more than one stop of 1,024 shards leaves).
    """

    node: str
    lease: str
    surplus: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the history of terms: its begin, or its end with the reason. For people; never decides anything.

    Sent once and not repeated, without a reply; a store that keeps no history drops it.
    """

    lease: str
    token: int
    holder: str
    began_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReadLeases:
    """Read rows by name, for a hint only. Answered by `LeaseRows`."""

    leases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadSignals:
    """Read the `signals` rows. Answered by `SignalRows`; `seen` lets a store leave out rows that did not change."""

    seen: Mapping[str, int] = field(default_factory=dict)


Try = Insert | Renew | Release | Draw
Request = Insert | Renew | Release | Draw | Signal | Note | ReadLeases | ReadSignals


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one try. Carries its request, so an answer that comes late finds out that it is late."""

    request: Try
    outcome: Outcome
    holder: str | None = None
    fence: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as a read saw it. `remaining_s` None: the row has no end of its own."""

    holder: str | None
    remaining_s: float | None


@dataclass(frozen=True, slots=True)
class LeaseRows:
    """The rows of one `ReadLeases`; a name that is missing has no row. `rows` None: could not look."""

    request: ReadLeases
    rows: Mapping[str, LeaseRow] | None


@dataclass(frozen=True, slots=True)
class Released:
    """One entry of a node's signal row. `seq` grows by one with each release of that node."""

    seq: int
    lease: str
    surplus: bool


@dataclass(frozen=True, slots=True)
class SignalRows:
    """Rows of one `ReadSignals`, by node: the releases with a seq above the one seen, oldest first.

    The first look at a node (not in `seen`) brings all that its row holds. `rows` None: could not look.
    """

    request: ReadSignals
    rows: Mapping[str, Sequence[Released]] | None


Reply = Answer | LeaseRows | SignalRows
Deliver = Callable[[Sequence[Reply]], None]


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a store's clock costs: subtracted from each validity. SQLite 0 and 0; Cassandra 1 and the ring's skew."""

    rounding_s: float
    skew_s: float


class LeaseStore(Protocol):
    """A store of leases. Thread-safe; used by one timer thread a process."""

    def allowance(self) -> Allowance:
        """The allowance in force now; it may change while the process runs. Never blocks."""
        ...

    def submit(self, requests: Sequence[Request], deliver: Deliver) -> None:
        """Send all requests and return at once. `deliver` is called later, from a thread of the store's own (or at
        once, by a store that cannot block), with one reply a request (a `Signal` and a `Note` have none), together or
        in parts, in any order. It does not block. A request may stay without a reply for ever: the caller counts time
        itself."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Stop after what was submitted, wait at most `timeout_s` seconds; say whether nothing is left running."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """A lease as an operator sees it. `token` and `drawn_at` are None for a holder that draws none (a Go gateway)."""

    lease: str
    holder: str | None
    token: int | None
    drawn_at: datetime | None
    remaining_s: float | None


class LeaseReader(Protocol):
    """Reads leases for people; blocks for at most a few seconds."""

    def list_leases(self) -> list[LeaseStatus]:
        """Every live lease, by name. Raises StoreUnavailable when it could not look."""
        ...
