"""Whether each contact point answers as a Cassandra node does, and if not, why; and the way in through those that do.

One connection each, side by side: connect, TLS if it is set, the protocol's OPTIONS request, which needs no login. A
thread `contact-N` each, left behind when the name service hangs.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial

from strata_daemon.base.cassandra_settings import CassandraSettings
from strata_daemon.base.errors import StoreUnavailable
from strata_daemon.base.runtime import Runtime, Thread
from strata_daemon.stores.cassandra.connect import connect, tls_context
from strata_daemon.stores.cassandra.errors import tls_refusal
from strata_daemon.stores.cassandra.ring import Ring

WITHIN_S = 2.0
OPTIONS = bytes([4, 0, 0, 0, 5, 0, 0, 0, 0])  # version 4, a request, no flags, stream 0, opcode 5, no body
HEAD_BYTES, ANSWER, SUPPORTED, ERROR = 9, 0x80, 6, 0
ENDED = "it ends the connection"
ENDED_PLAIN = f"{ENDED}; a node that wants TLS does so: see STRATA_CASSANDRA_TLS_CA_FILE"
Contact = tuple[str, int]


def knock(settings: CassandraSettings, runtime: Runtime) -> dict[Contact, str | None]:
    """By contact point: None when it answers, else why not. Takes three seconds at most.

    Raises PreflightError when a TLS file cannot be used."""
    context = tls_context(settings) if settings.is_tls else None
    answers: dict[Contact, str | None] = {}  # each thread writes its own key, and is joined before it is read
    deadline = runtime.now() + WITHIN_S

    def ask(contact: Contact) -> None:
        answers[contact] = _reason(contact, context, lambda: max(0.1, deadline - runtime.now()))

    threads = [runtime.spawn(f"contact-{i}", partial(ask, contact)) for i, contact in enumerate(settings.hosts)]
    ended = _join(threads, runtime, deadline)
    late = f"its name is not resolved within {WITHIN_S:g} s"
    return {contact: answers[contact] if ended[i] else late for i, contact in enumerate(settings.hosts)}


def in_words(contact: Contact) -> str:
    host, port = contact
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reach(settings: CassandraSettings, runtime: Runtime, answers: dict[Contact, str | None] | None = None) -> Ring:
    """A connection in bounded time, for a command: the driver waits for each contact point that is silent in turn, so
    it is told only those that answer. Raises StoreUnavailable, PreflightError."""
    told = knock(settings, runtime) if answers is None else answers
    answering = tuple(contact for contact, reason in told.items() if reason is None)
    if not answering:
        reasons = "; ".join(f"{in_words(contact)}: {reason}" for contact, reason in told.items())
        raise StoreUnavailable(f"No contact point of the ring can be used ({reasons}).")
    return Ring(*connect(settings.model_copy(update={"hosts": answering}), WITHIN_S), settings, runtime)


def _join(threads: Sequence[Thread], runtime: Runtime, deadline: float) -> list[bool]:
    return [thread.join(max(0.0, deadline + 0.5 - runtime.now())) for thread in threads]


def _reason(contact: Contact, context: ssl.SSLContext | None, left_s: Callable[[], float]) -> str | None:
    try:
        with socket.create_connection(contact, timeout=left_s()) as plain:
            if context is None:
                return _greet(plain, left_s, is_tls=False)
            plain.settimeout(left_s())
            address = plain.getpeername()[0]  # the driver compares certificates with addresses, never with names
            with context.wrap_socket(plain, server_hostname=address) as wrapped:
                return _greet(wrapped, left_s, is_tls=True)
    except ssl.SSLError as exc:
        why = tls_refusal(exc) or exc
        return f"TLS failed ({why}): check STRATA_CASSANDRA_TLS_CA_FILE, and whether its port speaks TLS"
    except socket.gaierror as exc:
        return f"its name is not known ({exc.strerror})"
    except UnicodeError:
        return "it is no host name"
    except ConnectionResetError:
        return ENDED_PLAIN if context is None else ENDED
    except TimeoutError:
        return f"no answer within {WITHIN_S:g} s"
    except OSError as exc:
        return exc.strerror or str(exc)


def _greet(connection: socket.socket, left_s: Callable[[], float], *, is_tls: bool) -> str | None:
    connection.settimeout(left_s())
    connection.sendall(OPTIONS)
    head = b""
    while len(head) < HEAD_BYTES:
        connection.settimeout(left_s())
        part = connection.recv(HEAD_BYTES - len(head))
        if not part:
            return ENDED if is_tls else ENDED_PLAIN
        head += part
    if head[0] & ANSWER and head[4] in (SUPPORTED, ERROR):
        return None if head[4] == SUPPORTED else "it does not speak version 4 of the native protocol"
    return "something else than Cassandra answers on this port"
