"""`/readyz`: whether the stores answer. One look a second at most, whoever asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime

FRESH_S = 1.0


class Readiness:
    """`probes` maps a name to a cheap call that raises StoreUnavailable. Called on the server's threads."""

    def __init__(self, runtime: Runtime, probes: Mapping[str, Callable[[], object]]) -> None:
        self._runtime = runtime
        self._probes = probes
        self._lock = threading.Lock()  # guards the two below
        self._asked_at: float | None = None
        self._found: list[str] = []

    def unready(self) -> list[str]:
        """A sentence for each store that does not answer."""
        now = self._runtime.now()
        with self._lock:
            if self._asked_at is not None and now - self._asked_at < FRESH_S:
                return self._found
            self._asked_at = now
        found = []
        for name, probe in self._probes.items():
            try:
                probe()
            except StoreUnavailable as exc:
                found.append(f"The {name} store does not answer: {exc}")
        with self._lock:
            self._found = found
        return found
