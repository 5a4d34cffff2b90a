"""A real Cassandra ring on this machine, for tests, benches and a first try.

`Ring` is the whole of it for Python, scripts/cassandra for the terminal. Knows of the daemon only its settings.
"""

from ring.errors import RingError
from ring.options import Options
from ring.processes import Fate
from ring.ring import NodeStatus, Ring

__all__ = ["Fate", "NodeStatus", "Options", "Ring", "RingError"]
