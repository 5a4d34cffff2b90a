"""Fair share of the leases of a fan-out over the nodes that run it: pure (design.md section 4, fair share)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

STABLE_S = 6.0  # how long the set of nodes must stand before a surplus is given up
KEPT_S = 300.0  # how long a lease taken beyond the share is kept
BEYOND_WAIT_S = 3.0  # how long a node at its share leaves a free lease to those below theirs
RANK_WAIT_S = 0.3
RANK_MAX = 5


def quota(slots: int, running: Sequence[str], me: str) -> int:
    """How many of `slots` leases this node should hold: floor(N/R), one more for the first N mod R by sorted id.

    `running` names the live nodes that run the worker, sorted, this one among them.
    """
    share, rest = divmod(slots, len(running))
    return share + (1 if running.index(me) < rest else 0)


def rank_wait_s(running: Sequence[str], me: str) -> float:
    """How long the node of rank r lets others go first: min(r, 5) x 0.3 s."""
    return min(running.index(me), RANK_MAX) * RANK_WAIT_S


def surplus(
    slots: int, running: Sequence[str], me: str, held: Mapping[int, float], now: float, is_busy: Mapping[int, bool]
) -> list[int]:
    """Which held slots to give up now, idle ones first, then the highest.

    `held` maps each held slot to the instant until which it is kept. Nobody gives up its only lease.
    """
    over = len(held) - max(1, quota(slots, running, me))
    if over <= 0:
        return []
    open_to = [slot for slot, kept_until in held.items() if kept_until <= now]
    open_to.sort(key=lambda slot: (is_busy.get(slot, False), -slot))
    return open_to[:over]
