"""Watches daemons while something is done to their ring: gaps between good renewals, terms and who held what when."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType

from processes import LEADS, Failed
from ring_daemon import LOST, RELEASED, Daemon

LOOK_S = 0.5
SAME_S = 0.4  # two sights of one renewal differ by what a look takes; renewals of a lease are seconds apart
INSIDE = "the runner of"  # in a problem of a lost lease whose runner has not left (supervision/snapshot.py)

Key = tuple[str, str, float]  # node, lease, token: one term


@dataclass
class Sight:
    """What was seen. Instants are wall seconds."""

    renewals: defaultdict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)  # held by its own account, though its validity had run out
    silences: list[str] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)

    def gaps(self) -> list[float]:
        """Seconds from each good renewal to the next of the same term, first send to first send."""
        return [later - earlier for times in self.renewals.values() for earlier, later in pairwise(times)]


class Watcher:
    """Looks at the daemons each half second, on a thread of its own, from entry to exit of its `with`.

    `sight` is the thread's until the exit.
    """

    def __init__(self, daemons: Sequence[Daemon]) -> None:
        self.sight = Sight()
        self._daemons = daemons
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher")

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            for daemon in self._daemons:
                if daemon.process.popen.poll() is None:
                    try:
                        self._look(daemon)
                    except Failed as exc:
                        self.sight.silences.append(str(exc))

    def _look(self, daemon: Daemon) -> None:
        self.sight.problems += daemon.problems()
        sample = daemon.sample()
        series = {
            name: {labels["lease"]: value for labels, value in sample.series.get(f"strata_daemon_lease_{name}", ())}
            for name in ("held", "token", "renew_age_seconds", "valid_seconds")
        }
        self.sight.held[daemon.node] = len(series["held"])
        for lease, age_s in series["renew_age_seconds"].items():
            times = self.sight.renewals[daemon.node, lease, series["token"][lease]]
            renewed_at = sample.at - age_s
            if not times or renewed_at - times[-1] > SAME_S:
                times.append(renewed_at)
        self.sight.stale += [lease for lease, left_s in series["valid_seconds"].items() if left_s <= 0]


@dataclass(frozen=True, slots=True)
class Span:
    """A term as a daemon's log tells of it; `ended` is infinite while it lasts."""

    lease: str
    node: str
    began: float
    ended: float


def spans(daemons: Iterable[Daemon]) -> list[Span]:
    """Every term. It ends in the log when it was lost, or when its release was answered: never too early."""
    found = []
    for daemon in daemons:
        open_terms: dict[str, tuple[str, float]] = {}
        for line in daemon.lines(LEADS, LOST, RELEASED):
            holder = str(line.fields.get("holder"))
            if line.msg == LEADS:
                open_terms[holder] = (line.lease, line.at)
            elif holder in open_terms:
                lease, began = open_terms.pop(holder)
                found.append(Span(lease, daemon.node, began, line.at))
        found += [Span(lease, daemon.node, began, float("inf")) for lease, began in open_terms.values()]
    return found


def overlaps(terms: Iterable[Span]) -> list[str]:
    """Leases of which two terms were held at one time. A release is answered after the row is gone, and logged later
    still: where the next holder was quicker than that line, the two are at most a few milliseconds apart."""
    by_lease: defaultdict[str, list[Span]] = defaultdict(list)
    for term in terms:
        by_lease[term.lease].append(term)
    return [
        f"{lease}: {one.node} until {one.ended:.3f}, {two.node} from {two.began:.3f}"
        for lease, group in by_lease.items()
        for one, two in pairwise(sorted(group, key=lambda term: term.began))
        if one.ended - two.began > LOG_LAG_S
    ]


LOG_LAG_S = 0.05


def most_acquisitions(daemons: Iterable[Daemon], since: float) -> int:
    """How often the most wanted lease was acquired since then."""
    counts = Counter(line.lease for daemon in daemons for line in daemon.acquired(since))
    return max(counts.values(), default=0)


def inside_s(problems: Iterable[str]) -> Iterator[float]:
    """How long ago leases were lost whose runner was still inside, in seconds."""
    for problem in problems:
        if INSIDE in problem and " was lost " in problem:
            yield float(problem.partition(" was lost ")[2].split(" ", 1)[0])
