"""What time it is for whoever deletes by age: the earlier of two wall clocks, and only while they agree. Pure."""

from __future__ import annotations

from datetime import datetime

DISAGREEMENT_S = 60.0


class ClocksDisagree(Exception):
    """The host's and the store's wall clock differ by more than a minute: nothing is old enough to delete."""

    def __init__(self, host: datetime, store: datetime) -> None:
        difference_s = abs((host - store).total_seconds())
        shown = [each.isoformat(timespec="seconds") for each in (host, store)]
        super().__init__(
            f"the host's clock says {shown[0]}, the store's {shown[1]}"
            f" ({difference_s:.0f} s apart): nothing is deleted by age until they agree;"
            " set the host's clock right, or restart the daemon once it is"
        )
        self.difference_s = difference_s


def earlier(host: datetime, store: datetime) -> datetime:
    """The clock to judge ages by (design.md section 4, wall clocks). Raises ClocksDisagree beyond 60 s."""
    if abs((host - store).total_seconds()) > DISAGREEMENT_S:
        raise ClocksDisagree(host, store)
    return min(host, store)
