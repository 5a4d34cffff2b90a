"""The history of terms in our keyspace: who led what, from when to when, and why it ended. Kept for thirty days by the
table's own TTL. A line that cannot be written is said once and left out: it decides nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from strata_daemon.base import log
from strata_daemon.base.runtime import Event
from strata_daemon.leader.store import Note
from strata_daemon.stores.cassandra.bulk import Row
from strata_daemon.stores.cassandra.errors import in_words
from strata_daemon.stores.cassandra.ring import Ring
from strata_daemon.stores.cassandra.sending import send_to
from strata_daemon.stores.cassandra.statements import NOTE_BEGIN, NOTE_END


class History:
    """`add` is the timer thread's; answers come on the driver's. Bounded by the terms that begin and end."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._lock = threading.Lock()  # guards _under_way and _is_failing
        self._under_way = 0
        self._is_failing = False
        self._idle: Event = ring.runtime.event()
        self._idle.set()

    def add(self, note: Note) -> None:
        node = note.holder.split("/", 1)[0]
        host = self._ring.hosts.for_key(self._ring.settings.own_keyspace, note.lease)
        if host is None:
            self._tell("no node of the ring is known")
            return
        with self._lock:
            self._under_way += 1
            self._idle.clear()
        key = (note.lease, note.token, note.holder, node)
        is_begin = note.ended_at is None
        statement = NOTE_BEGIN if is_begin else NOTE_END
        values = (*key, note.began_at) if is_begin else (*key, note.ended_at, note.reason)
        send_to(self._ring, statement, values, host, self._written, self._failed)

    def wait(self, timeout_s: float) -> bool:
        """Until nothing is on its way; whether that is so."""
        return self._idle.wait(timeout_s)

    def _written(self, _rows: Sequence[Row]) -> None:
        with self._lock:
            self._is_failing = False
        self._ended()

    def _failed(self, exc: BaseException) -> None:
        self._tell(in_words(exc))
        self._ended()

    def _ended(self) -> None:
        with self._lock:
            self._under_way -= 1
            if self._under_way == 0:
                self._idle.set()

    def _tell(self, error: str) -> None:
        with self._lock:
            is_said, self._is_failing = self._is_failing, True
        if not is_said:
            log.logger("leader").warning("term history not written", extra={"error": error})
