"""Up to where each partition of the gc queue has been read, so that no read goes over its own tombstones again.

An ack leaves a tombstone for ten days (defect j): a read that begins at the oldest entry passes over all of them. So a
read begins at the floor of its partition; now and then an hour further back, since a gateway's clock may lag, a hint
be late; and once a day, and whenever a lease was taken anew, at the very beginning. Pure; its owner locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

START_MS = -(2**62)  # before anything that can be written
LAG_MS = 3_600_000
LAG_READ_S = 600.0
SWEEP_S = 86_400.0


@dataclass(slots=True)
class _Floor:
    """`floor_ms`: everything up to there was read and taken care of. Instants of the last read of each kind."""

    floor_ms: int
    lag_read_at: float
    swept_at: float


class Floors:
    """By (region, shard). A shard that is not there must be swept."""

    def __init__(self) -> None:
        self._floors: dict[tuple[str, int], _Floor] = {}
        # The oldest entry of a shard that could neither be acked nor set aside.
        self._held: dict[tuple[str, int], int] = {}

    def forget(self, region: str, shards: Iterable[int]) -> None:
        for shard in shards:
            self._floors.pop((region, shard), None)
            self._held.pop((region, shard), None)

    def due_sweep(self, region: str, shards: Sequence[int], now: float) -> list[int]:
        return [shard for shard in shards if self._is_sweep_due(region, shard, now)]

    def start_ms(self, region: str, shard: int, now: float) -> int:
        """Where a read of the shard begins now."""
        floor = self._floors.get((region, shard))
        if floor is None or self._is_sweep_due(region, shard, now):
            return START_MS
        return floor.floor_ms - LAG_MS if now - floor.lag_read_at >= LAG_READ_S else floor.floor_ms

    def hold(self, region: str, shard: int, at_ms: int) -> None:
        """An entry of that instant stays in the queue: the next read must find it, and so must a count."""
        held_ms = self._held[region, shard] = min(at_ms, self._held.get((region, shard), at_ms))
        if (floor := self._floors.get((region, shard))) is not None:
            floor.floor_ms = min(floor.floor_ms, held_ms - 1)

    def begin_read(self, region: str, shard: int) -> None:
        """What was held is met again, and held again if need be."""
        self._held.pop((region, shard), None)

    def read_up_to(self, region: str, shard: int, start_ms: int, end_ms: int, now: float) -> None:
        """A read from `start_ms` to `end_ms` found nothing more to do, but for what is held."""
        end_ms = min(end_ms, self._held.get((region, shard), end_ms + 1) - 1)
        floor = self._floors.get((region, shard))
        if floor is None:
            if start_ms == START_MS:
                self._floors[region, shard] = _Floor(end_ms, now, now)
            return
        floor.floor_ms = max(floor.floor_ms, end_ms)
        if start_ms == START_MS:
            floor.swept_at = floor.lag_read_at = now
        elif start_ms <= floor.floor_ms - LAG_MS:
            floor.lag_read_at = now

    def _is_sweep_due(self, region: str, shard: int, now: float) -> bool:
        floor = self._floors.get((region, shard))
        return floor is None or now - floor.swept_at >= SWEEP_S
