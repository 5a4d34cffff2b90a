"""What is said of terms: one log line a transition, the counters, and the view that other threads read.

Runs on the timer thread. The phrases are Strata's where it has them (internal/leader/leader.go): existing log rules
go on working. The log shows `lease` as `name` too.
"""

from __future__ import annotations

import logging
from datetime import datetime

from strata_daemon.base.metrics import Metrics
from strata_daemon.leader.handle import TermHandle, TermView
from strata_daemon.leader.store import Answer, LeaseRow, Note, Outcome, Try
from strata_daemon.leader.term import OTHER_HOLDER, RELEASE_UNKNOWN, RELEASED, Phase, Term

LEFT = "left"  # the runner returned, and the lease was given back

Logger = logging.LoggerAdapter[logging.Logger]


class TermJournal:
    def __init__(self, metrics: Metrics, log: Logger) -> None:
        self._metrics = metrics
        self._log = log
        self._store_error = ""
        self._endless: dict[str, str] = {}

    def sent(self, request: Try, handle: TermHandle, tries: int) -> None:
        """`tries` of the cycle so far: a repeat means that the try before it stayed unknown."""
        if tries < 2:
            return
        statement = type(request).__name__.lower()
        self._metrics.outcome_unknown.labels(statement).inc()
        if tries > 2:
            return  # said at the first repeat of the cycle
        phrase = f"leader {'acquire' if statement == 'insert' else statement} error"
        self._log.warning(
            phrase,
            extra={**_fields(handle, request.holder, handle.view().token), "error": "no answer in time, asked again"},
        )

    def answered(self, answer: Answer) -> None:
        """Why the store does not know is said once, until it knows again."""
        if answer.outcome is not Outcome.UNKNOWN:
            self._store_error = ""
        elif answer.detail != self._store_error:
            self._store_error = answer.detail
            fields = {"lease": answer.request.lease, "holder": answer.request.holder, "error": answer.detail}
            self._log.warning("lease store error", extra=fields)

    def seen(self, lease: str, row: LeaseRow) -> None:
        """A lease that somebody holds without an end is waited for in vain: said once a holder."""
        if row.holder is None or row.remaining_s is not None:
            self._endless.pop(lease, None)
        elif self._endless.get(lease) != row.holder:
            self._endless[lease] = row.holder
            fields = {"lease": lease, "holder": row.holder, "error": "its row has no TTL: only its holder can end it"}
            self._log.error("leader lease never ends", extra=fields)

    def notes(self, old: Term, new: Term, wall: datetime) -> list[Note]:
        """What the history of terms is told of a step: that a term began, or ended and why."""
        if new.phase is old.phase or new.token is None:
            return []
        if new.phase is Phase.HELD:
            return [Note(new.lease, new.token, new.holder, began_at=wall)]
        if old.phase is Phase.HELD:
            return [Note(new.lease, new.token, new.holder, ended_at=wall, reason=new.reason or LEFT)]
        return []

    def orphan_deleted(self, lease: str, holder: str) -> None:
        """A row of a late attempt of ours stood in everybody's way (V2) and is gone."""
        self._metrics.orphans.inc()
        self._log.warning("leader orphan deleted", extra={"lease": lease, "holder": holder})

    def view(self, handle: TermHandle, old: Term, new: Term, now: float) -> TermView:
        """Say what changed from `old` to `new`, and give the view to publish."""
        before = handle.view()
        began_at, left_at = before.began_at, before.left_at
        if new.confirmed_at is not None and new.confirmed_at != old.confirmed_at:
            self._metrics.renew_s.observe(max(0.0, now - new.confirmed_at))
        if new.phase is not old.phase:
            if new.phase is Phase.HELD:
                began_at = now
            elif new.phase is Phase.LOST:
                left_at = now
            self._say(handle, old, new)
        unknown = before.unknown + (1 if new.cycle is not None and len(new.cycle.tries) > 1 else 0)
        return TermView(
            phase=new.phase,
            holder=new.holder,
            window_s=new.timing.window_s,
            token=new.token,
            began_at=began_at,
            renewed_at=new.confirmed_at,
            valid_until=new.valid_until,
            left_at=left_at,
            reason=new.reason,
            unknown=unknown,
        )

    def _say(self, handle: TermHandle, old: Term, new: Term) -> None:
        fields = _fields(handle, new.holder, new.token)
        if new.phase is Phase.HELD:
            self._metrics.terms_begun.labels(handle.worker).inc()
            self._log.info("leader acquired", extra={**fields, "reason": "free"})
        elif new.phase is Phase.LOST:
            self._metrics.terms_ended.labels(handle.worker, new.reason).inc()
            self._log.warning("leader lease lost", extra={**fields, "reason": new.reason})
        elif new.phase is Phase.RELEASING and old.phase is Phase.HELD:
            self._metrics.terms_ended.labels(handle.worker, new.reason).inc()
        elif new.phase is Phase.ENDED:
            self._say_end(new, fields)

    def _say_end(self, new: Term, fields: dict[str, object]) -> None:
        fields["reason"] = new.reason
        if new.confirmed_at is None:
            level = logging.DEBUG if new.reason in (OTHER_HOLDER, RELEASED) else logging.WARNING
            self._log.log(level, "leader acquire failed", extra=fields)
        elif new.reason == RELEASE_UNKNOWN:
            self._log.warning("leader release error", extra={**fields, "error": "no answer, left to the TTL"})
        elif not new.row_gone:
            self._log.info("leader released", extra=fields)


def _fields(handle: TermHandle, holder: str, token: int | None) -> dict[str, object]:
    return {"worker": handle.worker, "name": handle.lease, "lease": handle.lease, "holder": holder, "token": token}
