"""One-line breakages of `leader/term.py` and `leader/timing.py`, each of which a scripted case must catch.

A breakage counts as caught when a case fails with its own assertion: not by an import error, nor by a crash.
"""

# ruff: noqa: E501  a breakage shows the lines of the source as they stand there

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from strata_daemon.leader import term as real
from tests.unit.leader.term_cases import CASES, play

SOURCE = Path(real.__file__).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Mutant:
    """`rule`: the sentence of design.md section 4 that it breaks. `old` stands exactly once in the source."""

    rule: str
    old: str
    new: str


MUTANTS = [
    Mutant(
        "the first renewal of a term comes early by what it was given",
        "return _confirmed(term) + term.timing.renew_s - term.early_s",
        "return _confirmed(term) + term.timing.renew_s",
    ),
    Mutant(
        "only the first renewal comes early",
        "early_s = 0.0 if term.phase is Phase.HELD else term.early_s",
        "early_s = term.early_s",
    ),
    Mutant(
        "validity counts from the send, not from the answer",
        "return replace(term, phase=Phase.HELD, confirmed_at=term.cycle.first_sent, cycle=None, early_s=early_s), ()",
        "return replace(term, phase=Phase.HELD, confirmed_at=now, cycle=None, early_s=early_s), ()",
    ),
    Mutant(
        "validity counts from the first send of the cycle, not from the last",
        "return replace(term, phase=Phase.HELD, confirmed_at=term.cycle.first_sent, cycle=None, early_s=early_s), ()",
        "return replace(term, phase=Phase.HELD, confirmed_at=term.cycle.sent, cycle=None, early_s=early_s), ()",
    ),
    Mutant(
        "a repeat belongs to the cycle of its first send",
        "first_sent, tries = (old.first_sent, old.tries) if old else (now, frozenset[int]())",
        "first_sent, tries = (now, old.tries) if old else (now, frozenset[int]())",
    ),
    Mutant(
        "the answer to any try of the cycle counts",
        "cycle = Cycle(first_sent, now, now + term.timing.attempt_s, tries | {number})",
        "cycle = Cycle(first_sent, now, now + term.timing.attempt_s, frozenset({number}))",
    ),
    Mutant(
        "an answer of an older cycle is dropped",
        "if term.cycle is None or answer.request.try_no not in term.cycle.tries:\n        return term, ()  # of",
        "if term.cycle is None:\n        return term, ()  # of",
    ),
    Mutant(
        "a refused renew ends the term at once",
        "return replace(term, phase=Phase.LOST, reason=TAKEN, row_gone=True, cycle=None), ()",
        "return _unknown(term, answer, now)",
    ),
    Mutant(
        "unknown is not refused (renew)",
        "    if answer.outcome is Outcome.REFUSED:\n        if term.phase is Phase.CONFIRMING:",
        "    if answer.outcome is not Outcome.APPLIED:\n        if term.phase is Phase.CONFIRMING:",
    ),
    Mutant(
        "unknown is not applied (renew)",
        "    if answer.outcome is Outcome.UNKNOWN:\n        return _unknown(term, answer, now)\n    early_s",
        "    early_s",
    ),
    Mutant(
        "unknown is not refused (insert)",
        "    if answer.outcome is Outcome.UNKNOWN:\n        return _unknown(term, answer, now)\n    term = replace(term, open_inserts",
        "    term = replace(term, open_inserts",
    ),
    Mutant(
        "refused with our own holder in the answer means applied",
        "is_ours = answer.outcome is Outcome.APPLIED or answer.holder == term.holder",
        "is_ours = answer.outcome is Outcome.APPLIED",
    ),
    Mutant(
        "a refused insert is no lease (faults.md 5)",
        "is_ours = answer.outcome is Outcome.APPLIED or answer.holder == term.holder",
        "is_ours = True",
    ),
    Mutant(
        "the token is drawn after the insert was applied, before the confirming renew",
        "return _send(replace(term, phase=Phase.DRAWING), now, new_cycle=True)",
        "return _send(replace(term, phase=Phase.CONFIRMING), now, new_cycle=True)",
    ),
    Mutant(
        "an insert applied is not yet a term: a confirming renew follows the draw",
        "return _send(confirming, now, new_cycle=True)",
        "return replace(confirming, phase=Phase.HELD, confirmed_at=now, cycle=None), ()",
    ),
    Mutant(
        "a refused draw brings the number to go on from",
        "return _send(replace(term, seen=answer.fence), now, new_cycle=True)",
        "return _send(term, now, new_cycle=True)",
    ),
    Mutant(
        "a token is ours only when the draw was applied",
        "    if answer.outcome is Outcome.UNKNOWN:\n        return _unknown(term, answer, now)\n    if answer.outcome is Outcome.REFUSED:\n        return _send(replace(term, seen",
        "    if answer.outcome is Outcome.REFUSED:\n        return _send(replace(term, seen",
    ),
    Mutant(
        "a later term has a higher token",
        "token = (term.seen or 0) + 1",
        "token = term.seen or 1",
    ),
    Mutant(
        "a late answer to an older draw is dropped",
        "if term.phase is not Phase.DRAWING or term.cycle is None or answer.request.try_no != term.cycle.latest:",
        "if term.phase is not Phase.DRAWING or term.cycle is None:",
    ),
    Mutant(
        "deadlines come before the event: ended is final, a late answer revives nothing",
        "    term, requests = _expire(term, now)\n",
        "    term, requests = (term, ()) if isinstance(event, Answer) else _expire(term, now)\n",
    ),
    Mutant(
        "a term ends at its deadline",
        "return replace(term, phase=Phase.LOST, reason=DEADLINE, cycle=None), ()",
        "return term, ()",
    ),
    Mutant(
        "ended is final",
        "    if term.phase in (Phase.RELEASING, Phase.ENDED):\n        return term, ()\n",
        "    if term.phase is Phase.RELEASING:\n        return term, ()\n",
    ),
    Mutant(
        "a lost term is not released before its runner left",
        "return replace(term, phase=Phase.LOST, reason=DEADLINE, cycle=None), ()",
        "return _give_up(term, DEADLINE, now)",
    ),
    Mutant(
        "a lost term is renewed no more",
        "    if term.phase in (Phase.LOST, Phase.ENDED):\n        return term, ()\n    if term.cycle is None:",
        "    if term.phase is Phase.LOST:\n        return _send(term, now, new_cycle=True)\n    if term.cycle is None:",
    ),
    Mutant(
        "a row that is another's is left alone",
        "    if term.row_gone:\n        return _end(term, term.reason), ()\n",
        "",
    ),
    Mutant(
        "a term that lost by time still releases its row",
        "    if term.row_gone:\n        return _end",
        "    if term.phase is Phase.LOST:\n        return _end",
    ),
    Mutant(
        "a try is called unknown one attempt time-out after its send",
        "if now < term.cycle.retry_at:",
        "if now < term.cycle.retry_at + term.timing.attempt_s:",
    ),
    Mutant(
        "an unknown answer is repeated after a pause, not at once",
        "retry_at = min(term.cycle.retry_at, now + term.timing.pause_s)",
        "retry_at = now",
    ),
    Mutant(
        "a late unknown does not put the repeat off",
        "retry_at = min(term.cycle.retry_at, now + term.timing.pause_s)",
        "retry_at = now + term.timing.pause_s",
    ),
    Mutant(
        "an insert is tried three times at most",
        "if term.phase is Phase.INSERTING and len(term.cycle.tries) >= TRIES:",
        "if term.phase is Phase.INSERTING and len(term.cycle.tries) > TRIES:",
    ),
    Mutant(
        "a renew is repeated until its deadline, not three times",
        "if term.phase is Phase.INSERTING and len(term.cycle.tries) >= TRIES:",
        "if term.phase is not Phase.RELEASING and len(term.cycle.tries) >= TRIES:",
    ),
    Mutant(
        "an attempt that ended unknown deletes its row at once (V2)",
        "return _send(releasing, now, new_cycle=True)\n\n\ndef _end",
        "return _end(releasing, reason), ()\n\n\ndef _end",
    ),
    Mutant(
        "an attempt that ended with an unanswered insert is remembered as an orphan",
        "linger = term.may_linger or bool(term.open_inserts)",
        "linger = term.may_linger",
    ),
    Mutant(
        "a released holder with an unanswered twin is remembered too",
        "term = replace(term, open_inserts=term.open_inserts - {answer.request.try_no})",
        "term = replace(term, open_inserts=frozenset())",
    ),
    Mutant(
        "a twin that ran late is released again",
        "term = replace(term, may_linger=True, row_gone=False)",
        "pass",
    ),
    Mutant(
        "repeats of a release end at their limit",
        "elif term.phase is Phase.RELEASING and now >= term.until:",
        "elif term.phase is Phase.RELEASING and now >= term.until + term.timing.ttl_s:",
    ),
    Mutant(
        "an unknown release is repeated",
        "    if term.phase is not Phase.RELEASING:\n        return term, ()\n    if answer.outcome is Outcome.UNKNOWN:\n        return _unknown(term, answer, now)\n    return _end(term, term.reason), ()",
        "    if term.phase is not Phase.RELEASING:\n        return term, ()\n    return _end(term, term.reason), ()",
    ),
    Mutant(
        "no renewal follows a release",
        "releasing = replace(term, phase=Phase.RELEASING, until=until, reason=term.reason or RELEASED)",
        "releasing = replace(term, until=until, reason=term.reason or RELEASED)",
    ),
    Mutant(
        "a renewal is due one period after the last good cycle's send",
        "return _confirmed(term) + term.timing.renew_s - term.early_s",
        "return _confirmed(term) + 2 * term.timing.renew_s - term.early_s",
    ),
    Mutant(
        "an attempt that takes longer than the window is given up",
        "        if now >= term.until:\n            return _give_up(",
        "        if now >= term.until + term.timing.ttl_s:\n            return _give_up(",
    ),
    Mutant(
        "the store's allowance in force shortens what stands",
        "term = replace(term, timing=event.timing)",
        "pass",
    ),
    Mutant(
        "an answer that belongs to another attempt is dropped",
        "if answer.request.holder != term.holder:",
        "if answer.request.lease != term.lease:",
    ),
    Mutant(
        "the TTL of a renewal is never shorter than that of the insert",
        "return term, (Renew(term.lease, term.holder, number, term.timing.ttl_s),)",
        "return term, (Renew(term.lease, term.holder, number, term.timing.ttl_s - 1),)",
    ),
    Mutant(
        "the next tick comes no later than the deadline",
        "return min(renew, _confirmed(term) + term.timing.window_s)",
        "return renew + term.timing.window_s",
    ),
]


def _load(source: str) -> ModuleType:
    module = ModuleType("strata_daemon.leader.term_mutant")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(source, "term_mutant", "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module


def _caught_by(module: ModuleType) -> list[str]:
    caught = []
    for name, rows in CASES.items():
        try:
            play(module, rows)
        except AssertionError as exc:
            if str(exc).startswith("row "):
                caught.append(name)
        except Exception:  # noqa: BLE001, S112  a crash is not a catch; another case has to fail by its claim
            continue
    return caught


@pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{number}: {each.rule}" for number, each in enumerate(MUTANTS)])
def test_a_breakage_is_caught_by_a_scripted_case(mutant: Mutant) -> None:
    assert SOURCE.count(mutant.old) == 1, "the line to break has changed: bring the table up to date"
    assert _caught_by(_load(SOURCE.replace(mutant.old, mutant.new)))


def test_the_source_itself_breaks_no_case() -> None:
    assert _caught_by(_load(SOURCE)) == []


def test_there_are_enough_breakages() -> None:
    assert len(MUTANTS) >= 25
