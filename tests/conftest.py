"""What every test gets: an environment without STRATA_* settings, and a log that is as it was before.

Also which tests run: those marked `long` by --long only, those marked `ring` unless STRATA_TEST_NO_RING=1. They share
the rings of the session, which start when the first of them asks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests import rings

if TYPE_CHECKING:
    from tests.cassandra.kit.keyspaces import Client, Keyspaces

# Above what a case on a ring takes when other things run beside it; the start of a ring does not count.
RING_TEST_S = 300
LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests that take over 60 s too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes over 60 s; runs by --long only")
    config.addinivalue_line("markers", "ring: needs a Cassandra ring; left out when STRATA_TEST_NO_RING=1")
    config.stash[LEFT_OUT] = []


def pytest_itemcollected(item: pytest.Item) -> None:
    """What asks for a ring is marked so, before -m chooses."""
    if not item.get_closest_marker("ring") and {"ring", "secure_ring"} & set(getattr(item, "fixturenames", ())):
        item.add_marker("ring")
    if item.get_closest_marker("ring") and not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(RING_TEST_S, func_only=True))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests on a ring run last, so that the others need not share the machine with it."""
    if not config.getoption("--long"):
        _leave_out(config, items, "long", "they take over 60 s each: scripts/test --long runs them too")
    if os.environ.get(rings.NO_RING) == "1":
        _leave_out(config, items, "ring", f"they need a Cassandra ring, and {rings.NO_RING} is 1")
    items.sort(key=lambda item: item.get_closest_marker("ring") is not None)


def _leave_out(config: pytest.Config, items: list[pytest.Item], marker: str, why: str) -> None:
    left_out = [item for item in items if item.get_closest_marker(marker)]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker(marker)]
        config.hook.pytest_deselected(items=left_out)
        config.stash[LEFT_OUT].append(f"{len(left_out)} tests were left out: {why}.")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[LEFT_OUT]:
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("STRATA_") and not name.startswith("STRATA_TEST_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _same_log_afterwards() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("strata_daemon")
    before = (root.handlers[:], root.level, ours.level)
    yield
    logging.captureWarnings(False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def _teller(config: pytest.Config) -> Callable[[str], None]:
    """The start of a ring takes half a minute: it is told past what pytest captures."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")

    def say(line: str) -> None:
        if reporter is not None:
            reporter.write_line(f"ring: {line}")

    return say


@pytest.fixture(scope="session")
def ring(request: pytest.FixtureRequest) -> Iterator[rings.LiveRing]:
    """Three nodes; whoever breaks them mends them (`LiveRing.mend`)."""
    found, stop = rings.find(_teller(request.config))
    try:
        yield found
    finally:
        stop()


@pytest.fixture(scope="session")
def secure_ring(request: pytest.FixtureRequest) -> Iterator[rings.Ring]:
    """One node with authentication, rights and TLS, as its launcher sees it."""
    found, stop = rings.launch("secure", _teller(request.config), nodes=1, auth=True, tls=True)
    try:
        yield found
    finally:
        stop()


@pytest.fixture(scope="session")
def client(ring: rings.LiveRing) -> Iterator[Client]:
    """A client of the ring that is none of the product's: it sees the truth."""
    from tests.cassandra.kit.keyspaces import Client  # late: the driver costs who needs it a quarter of a second

    made = Client(ring)
    yield made
    made.close()


@pytest.fixture(scope="session")
def _shared_keyspaces(client: Client, ring: rings.LiveRing) -> Keyspaces:
    """One pair a session: fourteen tables take seconds to make."""
    from tests.cassandra.kit.keyspaces import make

    return make(client, ring, "strata_test")


@pytest.fixture
def keyspaces(_shared_keyspaces: Keyspaces) -> Keyspaces:
    """Strata's keyspace and ours, empty. Whatever uses them must have ended with its test."""
    _shared_keyspaces.empty()
    return _shared_keyspaces
