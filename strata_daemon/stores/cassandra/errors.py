"""What the driver's errors mean, in words and for the caller: a refusal for good, or something that may pass.

The driver has no common base for its errors (cassandra-facts.md II 2.3): what is not known as certain is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cassandra import (
    AuthenticationFailed,
    InvalidRequest,
    OperationTimedOut,
    ReadFailure,
    Unauthorized,
    Unavailable,
    WriteTimeout,
)
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import SyntaxException

SHOWN = 300
TLS_TEXT = re.compile(r"\[SSL: \w+\] (certificate verify failed: )?(?P<words>[^(\]]*[^(\] ])")
# What stands around the words of a server's error, and around the reason why a socket did not connect.
SERVER_TEXT = re.compile(r'Error from server: code=\w+ \[[^]]*\] message="(?P<words>.+)"$')
DRIVER_TEXT = re.compile(r"Tried connecting to \[.*\]\. Last error: (?P<words>.+)$")
NOT_LOOKED_UP = "Unable to perform authentication"  # no quorum of the replicas of system_auth answers the node
# No repeat will help: a ReadFailure is a read over more tombstones than a replica will step over.
REFUSED_FOR_GOOD = (Unauthorized, InvalidRequest, SyntaxException, AuthenticationFailed, ReadFailure)


def in_words(exc: BaseException) -> str:
    """One line that an operator can read; never a traceback."""
    match exc:
        case NoHostAvailable():
            if not isinstance(exc.errors, dict) or not exc.errors:
                return "no node can be reached"
            return "; ".join(f"{host}: {in_words(why)}" for host, why in exc.errors.items())
        case OperationTimedOut():
            host = getattr(exc, "last_host", None)
            return f"no answer in time{f' from {host}' if host else ''}"
        case Unavailable():
            return f"too few replicas alive ({exc.alive_replicas} of {exc.required_replicas} that are needed)"
        case WriteTimeout():
            return f"write time-out ({exc.received_responses} of {exc.required_responses} replicas answered)"
        case ReadFailure():
            return "the replicas failed to read"
        case _:
            text = " ".join(str(exc).split())
            if (found := SERVER_TEXT.search(text)) or (found := DRIVER_TEXT.search(text)):
                text = found["words"]
            return (text or type(exc).__name__)[:SHOWN]


def causes(exc: BaseException) -> Iterator[BaseException]:
    """The error itself and those it stands for: a NoHostAvailable has one a node."""
    yield exc
    told = getattr(exc, "errors", None)  # by node, or the nodes alone
    for why in told.values() if isinstance(told, dict) else ():
        if isinstance(why, BaseException):
            yield from causes(why)
    if exc.__cause__ is not None:
        yield from causes(exc.__cause__)


def is_for_good(exc: BaseException) -> bool:
    return isinstance(exc, REFUSED_FOR_GOOD)


def per_node(exc: BaseException) -> list[BaseException]:
    """What each node that was tried said, when a connection failed; the error itself when no node was."""
    told = getattr(exc, "errors", None)
    found = [why for why in told.values() if isinstance(why, BaseException)] if isinstance(told, dict) else []
    return found or [exc]


def tls_refusal(exc: BaseException) -> str | None:
    """Why TLS can never be with this node; None for other errors, and for one that was cut short. The driver makes an
    OSError with the number of an SSLError, and its text, out of each."""
    for cause in causes(exc):
        found = TLS_TEXT.search(str(cause)) if isinstance(cause, OSError) else None
        if found is not None and "EOF" not in found["words"]:
            return found["words"].strip()
    return None


def login_refusal(exc: BaseException) -> str | None:
    """Why the login was refused; None for other errors, and when the node could not look the user up just now."""
    for cause in causes(exc):
        if isinstance(cause, AuthenticationFailed) and NOT_LOOKED_UP not in str(cause):
            return in_words(cause)
    return None
