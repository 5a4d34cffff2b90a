"""`/readyz`: whether the stores answer. One question a second and store at most, whoever asks.

Called on the server's threads, which never wait for a store that hangs (see `supervision.look`): else a few readiness
probes would take every thread, and `/healthz` would fall silent with the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime
from strata_daemon.supervision.look import Look

FRESH_S = 1.0
WAIT_S = 0.4  # two stores together stay under the usual time-out of a probe, 1 s
PATIENCE_S = 2.0  # a store that needs longer counts as silent


class Readiness:
    """`probes` maps a name to a cheap call that raises StoreUnavailable."""

    def __init__(self, runtime: Runtime, probes: Mapping[str, Callable[[], object]]) -> None:
        self._runtime = runtime
        self._looks = {
            name: Look(runtime, f"ready-{name}", partial(_ask, probe), fresh_s=FRESH_S, wait_s=WAIT_S)
            for name, probe in probes.items()
        }

    def unready(self) -> list[str]:
        """A sentence for each store that does not answer."""
        for look in self._looks.values():
            look.request()
        found = [self._verdict(name, look) for name, look in self._looks.items()]
        return [sentence for sentence in found if sentence]

    def _verdict(self, name: str, look: Look[str]) -> str:
        seen = look.read()
        waits_s = 0.0 if seen.hangs_since is None else self._runtime.now() - seen.hangs_since
        if waits_s > PATIENCE_S:
            return f"The {name} store has not answered for {waits_s:.0f} s."
        if seen.answer is None:
            return f"The {name} store has not answered yet."
        return f"The {name} store does not answer: {seen.answer}" if seen.answer else ""


def _ask(probe: Callable[[], object]) -> str:
    """What is wrong, empty when nothing is."""
    try:
        probe()
    except StoreUnavailable as exc:
        return str(exc) or type(exc).__name__
    return ""
