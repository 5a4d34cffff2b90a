"""The flag that threads wait on."""

from __future__ import annotations

from typing import Protocol


class Event(Protocol):
    """A flag that threads wait on. Across threads it is set once; only a `wake` is cleared, by its one waiter."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until set or until `timeout_s` has passed; say whether it is set."""
        ...
