"""What of waitress is made ours: threads that the runtime names and guards, and requests that are refused.

The parser runs on the thread `http`; the dispatcher's threads are `http-0` and on. Nothing here knows a path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import BadRequest, ServerNotImplemented

from strata_daemon.base.runtime import Runtime

_SILENT = logging.Logger("silent", logging.CRITICAL + 1)


class RuntimeDispatcher(ThreadedTaskDispatcher):
    """Its threads come from the runtime, so what escapes one is not lost."""

    # A line for each request that waits would let any client fill the log.
    queue_logger = _SILENT

    def __init__(self, runtime: Runtime, threads: int) -> None:
        super().__init__()
        self._runtime = runtime
        self.set_thread_count(threads)

    def start_new_thread(self, target: Callable[[int], object], thread_no: int) -> None:
        def run() -> None:
            target(thread_no)

        self._runtime.spawn(f"http-{thread_no}", run)


class RefusingParser(HTTPRequestParser):
    """A request that cannot be understood is the client's fault: 400, never a 5xx and never a trace in the log.

    waitress lets a target such as `http://[::1/` raise out of its loop, and answers 501 to an unknown transfer coding,
    which alerts on 5xx would take for a fault of ours.
    """

    def received(self, data: bytes) -> int:
        try:
            consumed = super().received(data)
        except ValueError:
            self.error = BadRequest("the request cannot be read")
            self.completed = True
            return len(data)
        if isinstance(self.error, ServerNotImplemented):
            self.error = BadRequest("unknown transfer coding")
        return consumed


class RefusingChannel(HTTPChannel):
    parser_class = RefusingParser
