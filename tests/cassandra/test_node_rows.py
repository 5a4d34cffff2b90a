"""Our rows in `cluster_nodes`, seen from outside: gone with the process, back when somebody drops them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from strata_daemon import __version__
from tests.cassandra.kit.fleet import Fleet
from tests.cassandra.kit.keyspaces import Keyspaces, Row
from tests.process.kit import eventually

COLUMNS = "node_id, address, version, started_at, workers, leader_for, last_heartbeat, TTL(address), TTL(version)"


def _row(keyspaces: Keyspaces, node: str) -> Row | None:
    found = keyspaces.client.run(f"SELECT {COLUMNS} FROM {keyspaces.strata}.cluster_nodes WHERE node_id = %s", (node,))
    return found[0] if found else None


def _leading(keyspaces: Keyspaces, node: str) -> Row:
    def claim() -> Row | None:
        row = _row(keyspaces, node)
        return row if row is not None and row[5] else None

    found = eventually(claim, 10.0)
    assert found is not None
    return found


def test_a_node_row_says_who_leads_lives_thirty_seconds_and_goes_with_a_clean_stop(fleet: Fleet) -> None:
    """Defect S3: a gateway's row stays 30 s after its stop. The started instant is in whole milliseconds."""
    node = fleet.start("node-a", DAEMON_LISTEN="off")
    row = _leading(fleet.keyspaces, "node-a")
    node_id, _, version, started_at, workers, leader_for, last_heartbeat, ttl_s, other_ttl_s = row
    assert (node_id, version, set(workers), set(leader_for)) == ("node-a", __version__, {"gc"}, {"gc"})
    assert 24 <= ttl_s <= 30 and 24 <= other_ttl_s <= 30
    now = datetime.now(UTC).replace(tzinfo=None)
    assert 0 <= (now - last_heartbeat).total_seconds() < 10 and started_at <= last_heartbeat
    assert node.stop() == 0
    assert _row(fleet.keyspaces, "node-a") is None


def test_a_node_row_that_somebody_drops_is_back_at_the_next_beat_as_the_same_process(fleet: Fleet) -> None:
    """faults.md 26: 'gone' is not 'could not look', and is counted."""
    fleet.start("node-a")
    before = _leading(fleet.keyspaces, "node-a")
    fleet.keyspaces.client.run(f"DELETE FROM {fleet.keyspaces.strata}.cluster_nodes WHERE node_id = 'node-a'")
    assert _row(fleet.keyspaces, "node-a") is None
    after = eventually(lambda: _row(fleet.keyspaces, "node-a"), 7.0)
    assert after is not None and after[3] == before[3] and set(after[5]) == {"gc"}


def test_a_node_row_full_of_nothing_hides_nobody_and_is_said_once(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """Bad input: a row of null columns without an end, and one of a node that ends in the year 2200."""
    strata, client = fleet.keyspaces.strata, fleet.keyspaces.client
    client.run(f"INSERT INTO {strata}.cluster_nodes (node_id) VALUES ('garbage') USING TTL 0")
    client.run(
        f"INSERT INTO {strata}.cluster_nodes (node_id, address, started_at, workers, last_heartbeat)"
        " VALUES ('from the future', '\u202e', '2200-01-01', {'gc', ''}, '2200-01-01') USING TTL 60"
    )
    node = fleet.start("node-a")
    other = fleet.start("node-b")
    _leading(fleet.keyspaces, fleet.wait_leader(15.0))
    time.sleep(6.0)  # so that each has looked twice
    read = {row.node_id for row in node.stores.meta.nodes.read()}
    assert read == {"node-a", "node-b", "from the future"}
    said = [record for record in caplog.records if record.getMessage() == "node row not readable"]
    assert len(said) == 2, "each process says it once"
    assert other.stop() == 0
