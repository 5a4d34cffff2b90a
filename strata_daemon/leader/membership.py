"""Who else runs a worker, as the node rows said at the last look."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Membership:
    """Node rows younger than 15 s by their remaining TTL, never by wall clocks (design.md, fair share).

    `me` is this node's id; `workers` maps each such node to the workers that its row names. `read_at` is the runtime
    instant of the look; `written_at` the instant at which each row was written, as its remaining TTL tells.
    """

    me: str
    workers: dict[str, frozenset[str]]
    read_at: float
    written_at: dict[str, float] = field(default_factory=dict)

    def running(self, worker: str, without: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """Nodes that run `worker` but those in `without`; this one always among them; sorted."""
        named = {node for node, workers in self.workers.items() if worker in workers}
        return tuple(sorted({self.me} | (named - without)))
