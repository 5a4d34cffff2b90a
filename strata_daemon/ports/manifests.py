"""The manifests that name chunks, as far as gc must know before it deletes one (defect G4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID


class ObjectKey(NamedTuple):
    bucket_id: UUID
    key: str


class Manifests(Protocol):
    """Calls block for at most a few seconds and raise StoreUnavailable."""

    def of_keys(self, keys: Sequence[ObjectKey]) -> list[list[bytes]]:
        """The manifests of every version of each key, as they are stored, in the order of `keys`; none for a key
        that is not there. Raises rather than leave one out: what was not looked at may be in use."""
        ...
