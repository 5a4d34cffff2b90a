"""All metadata ports of one backend, as a worker receives them in `Dependencies.meta`."""

from __future__ import annotations

from dataclasses import dataclass

from strata_daemon.ports.clock import StoreClock
from strata_daemon.ports.gc_queue import GCQueue
from strata_daemon.ports.manifests import Manifests
from strata_daemon.ports.nodes import Nodes
from strata_daemon.ports.objects import Objects


@dataclass(frozen=True, slots=True)
class Meta:
    gc_queue: GCQueue
    nodes: Nodes
    clock: StoreClock
    manifests: Manifests


@dataclass(frozen=True, slots=True)
class EmbeddedMeta(Meta):
    """With the objects that `lab` puts and removes, and the intents that make this safe."""

    objects: Objects
