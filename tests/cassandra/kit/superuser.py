"""A client with all rights on the ring with authentication and TLS; none of the product's."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

from tests.rings import Ring

Run = Callable[..., list[tuple[Any, ...]]]
STATEMENT_S = 60.0


@contextmanager
def superuser(ring: Ring) -> Iterator[Run]:
    """What runs a statement, with its values, and gives its rows."""
    assert ring.login is not None and ring.ca_file is not None
    cluster = Cluster(
        ring.hosts,
        port=ring.port,
        ssl_context=ssl.create_default_context(cafile=str(ring.ca_file)),
        auth_provider=PlainTextAuthProvider(*ring.login),
        protocol_version=4,
        compression=False,
    )
    try:
        session = cluster.connect()
        session.default_timeout = STATEMENT_S

        def run(cql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in session.execute(cql, tuple(values) or None)]

        yield run
    finally:
        cluster.shutdown()
