"""All stores of a process together, as whoever opens them hands them over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from strata_daemon.base.runtime import Runtime
from strata_daemon.leader.store import LeaseReader, LeaseStore
from strata_daemon.ports.chunks import ChunkStore
from strata_daemon.ports.meta import EmbeddedMeta, Meta
from strata_daemon.ports.shared_settings import SharedSettings


@dataclass(frozen=True, slots=True)
class Stores:
    """All stores of a process; a context manager that closes them. `lease_reader` is for people, `lease_store` for the
    timer."""

    meta: Meta
    data: ChunkStore
    lease_store: LeaseStore
    lease_reader: LeaseReader
    runtime: Runtime
    close: Callable[[], None]
    probes: Mapping[str, Callable[[], object]]  # by name: a cheap look that raises StoreUnavailable
    shared_settings: SharedSettings | None = None  # where nodes of several machines work on one store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class EmbeddedStores(Stores):
    """With objects to put and remove by hand."""

    meta: EmbeddedMeta
