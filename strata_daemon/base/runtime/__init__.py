"""The one source of time, waits, events, queues, threads and pools (design.md section 5): real and virtual.

`contract` holds what code may use, `real` what production uses, `virtual` what the simulation uses.
"""

from strata_daemon.base.runtime.contract import Pool, Runtime, Thread
from strata_daemon.base.runtime.event import Event
from strata_daemon.base.runtime.latch import Latch
from strata_daemon.base.runtime.queue import WakingQueue
from strata_daemon.base.runtime.stopping import Stopping

__all__ = ["Event", "Latch", "Pool", "Runtime", "Stopping", "Thread", "WakingQueue"]
