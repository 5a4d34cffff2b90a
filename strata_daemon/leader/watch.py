"""The watch: which of the leases that somebody here waits for look free. Hints only, never a decision.

Each half second one small read of the signals (each second by a process that waits for nothing); besides, each waited
lease is read by name at the sooner of its known end and the poll period, jittered: so a release by a Go holder, who
signals nothing, is seen too (design.md 3.6). What looks free is read again before a rank's wait is over. Owned by the
timer thread; candidates read through `Candidacy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from strata_daemon.leader.store import LeaseRow, LeaseRows, ReadLeases, ReadSignals, SignalRows

SIGNALS_WAITING_S = 0.5
SIGNALS_IDLE_S = 1.0
FAILED_READ_S = 1.0
RESERVED_S = 3.0
FREE_READ_S = 0.25  # while a lease looks free: shorter than the wait of a rank, so that nobody tries for a taken one
NAMES_A_READ = 100  # IN over more partitions than this is a burden for one coordinator
AFTER_END_S = 0.05  # past the known end, so that the read does not come an instant too early
TOGETHER = 0.5  # of the poll period
END_GRAIN_S = 0.25  # known ends that lie together are looked at together
READ_TIMEOUT_S = 3.0  # a read without an answer is asked again


@dataclass(frozen=True, slots=True)
class Free:
    """A lease that looked free at `since`. `reserved_until`: given up as surplus, kept for a node below its share.

    `left_by`: the node that released it, by its signal, or the one that let its row run out. A row that went before its
    end was released, and its signal will say by whom.
    """

    lease: str
    since: float
    reserved_until: float = 0.0
    left_by: str | None = None


@dataclass(slots=True)
class _Watched:
    next_read: float
    holder: str | None = None
    ends_at: float | None = None


class Watch:
    """What is waited for and what of it looks free. One owner: the timer thread."""

    def __init__(self, poll_s: float, jitter: Callable[[], float]) -> None:
        self._poll_s = poll_s
        self._jitter = jitter
        self._watched: dict[str, _Watched] = {}
        self._free: dict[str, Free] = {}
        self._seen: dict[str, int] = {}
        self._next_signals = 0.0
        self._signals_known = False

    @property
    def free(self) -> Mapping[str, Free]:
        return self._free

    def want(self, leases: Iterable[str], now: float) -> None:
        """Watch exactly these from now on; those that are new are read at once."""
        wanted = set(leases)
        for lease in self._watched.keys() - wanted:
            del self._watched[lease]
            self._free.pop(lease, None)
        for lease in sorted(wanted - self._watched.keys()):
            self._watched[lease] = _Watched(next_read=now)
        if wanted:
            self._next_signals = min(self._next_signals, now + SIGNALS_WAITING_S)

    def refused(self, lease: str, holder: str | None, now: float) -> None:
        """An attempt told who holds the lease, or failed: it looks taken until the next read says otherwise."""
        self._free.pop(lease, None)
        watched = self._watched.get(lease)
        if watched is not None:
            watched.holder, watched.ends_at = holder, None
            watched.next_read = now + (self._period() if holder is not None else FAILED_READ_S)

    def due(self, now: float) -> list[ReadLeases | ReadSignals]:
        """The reads to send now."""
        requests: list[ReadLeases | ReadSignals] = []
        if now >= self._next_signals:
            requests.append(ReadSignals(dict(self._seen)))
            self._next_signals = now + (SIGNALS_WAITING_S if self._watched else SIGNALS_IDLE_S)
        names: list[str] = []
        if any(now >= each.next_read for each in self._watched.values()):
            # What is due soon goes along, so that a thousand leases are ten reads a period and not a thousand.
            soon = now + self._poll_s * TOGETHER
            names = [lease for lease, each in self._watched.items() if each.next_read <= soon]
        for lease in names:
            self._watched[lease].next_read = now + READ_TIMEOUT_S
        for start in range(0, len(names), NAMES_A_READ):
            requests.append(ReadLeases(tuple(names[start : start + NAMES_A_READ])))
        return requests

    def next_at(self) -> float:
        """When `due` has something to send again."""
        return min([self._next_signals, *(each.next_read for each in self._watched.values())])

    def on_rows(self, reply: LeaseRows, now: float) -> bool:
        """Take in a read of leases; say whether what looks free has changed."""
        changed = False
        for lease in reply.request.leases:
            watched = self._watched.get(lease)
            if watched is None:
                continue
            if reply.rows is None:
                watched.next_read = now + FAILED_READ_S
            else:
                changed |= self._saw(lease, watched, reply.rows.get(lease), now)
        return changed

    def _saw(self, lease: str, watched: _Watched, row: LeaseRow | None, now: float) -> bool:
        watched.next_read = now + self._period()
        if row is not None:
            # A row without a holder is an insert's marker: it refuses everybody until it runs out (facts I.0.3).
            watched.ends_at = None if row.remaining_s is None else now + row.remaining_s
            if watched.ends_at is not None:
                ends_at = math.ceil((watched.ends_at + AFTER_END_S) / END_GRAIN_S) * END_GRAIN_S
                watched.next_read = min(watched.next_read, ends_at)
            watched.holder = row.holder
            return self._free.pop(lease, None) is not None
        watched.next_read = now + FREE_READ_S
        if lease in self._free:
            return False
        has_run_out = watched.ends_at is not None and now >= watched.ends_at
        left_by = watched.holder.split("/", 1)[0] if watched.holder and has_run_out else None
        self._free[lease] = Free(lease, now, left_by=left_by)
        return True

    def on_signals(self, reply: SignalRows, now: float) -> bool:
        """Take in a read of the signals; say whether what looks free has changed."""
        if reply.rows is None:
            self._next_signals = now + FAILED_READ_S
            return False
        changed = False
        for node, releases in reply.rows.items():
            is_new_node = self._signals_known and node not in self._seen
            known = self._seen.get(node, 0)
            for release in releases:
                if release.seq <= known:
                    continue
                self._seen[node] = max(self._seen.get(node, 0), release.seq)
                # What was released before our first look is told by the rows themselves.
                if (known or is_new_node) and release.lease in self._watched:
                    until = now + RESERVED_S if release.surplus else 0.0
                    seen = self._free.get(release.lease)
                    since = now if seen is None else seen.since
                    self._free[release.lease] = Free(release.lease, since, until, node)
                    self._watched[release.lease].next_read = now + FREE_READ_S
                    changed = True
        self._signals_known = True
        return changed

    def _period(self) -> float:
        """The poll period, jittered by a twentieth either way."""
        return self._poll_s * (0.95 + 0.1 * self._jitter())
