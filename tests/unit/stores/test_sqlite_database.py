"""What a state folder must be, and what is said when it is not."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path, PurePosixPath

import pytest

from strata_daemon.base.errors import PreflightError, StoreUnavailable
from strata_daemon.base.runtime.real import RealRuntime
from strata_daemon.stores.sqlite.database import Database, Schema, open_database
from strata_daemon.stores.sqlite.mounts import file_system, refuse_network

SCHEMA = Schema(0x1234, 3, ("CREATE TABLE t (k TEXT PRIMARY KEY, v BLOB)",))


def _open(path: Path, schema: Schema = SCHEMA, *, read_only: bool = False) -> Database:
    return open_database(path, schema, RealRuntime(), read_only=read_only)


def _filled(path: Path) -> None:
    database = _open(path)
    with database.write() as connection:
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(str(i), b"x" * 1000) for i in range(500)])
    database.close()


def _refusal(path: Path, schema: Schema = SCHEMA, *, read_only: bool = False) -> str:
    with pytest.raises(PreflightError) as caught:
        _open(path, schema, read_only=read_only).close()
    return str(caught.value)


def test_a_file_is_made_with_its_folder_and_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.db"
    _filled(path)
    database = _open(path)
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (500,)
    database.close()


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.close()
    assert "another program" in _refusal(path)


def test_a_refused_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as foreign:
        foreign.execute("CREATE TABLE theirs (x)")
    foreign.close()
    before = path.read_bytes()
    _refusal(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]


def test_a_look_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    _filled(path)
    _open(path, read_only=True).close()
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]


def test_a_newer_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    _open(path, Schema(0x1234, 4, ("CREATE TABLE t (x)",))).close()
    message = _refusal(path)
    assert "newer" in message and "schema 4" in message and "knows 3" in message


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_text("my diary")
    assert "no SQLite database" in _refusal(path)
    assert path.read_text() == "my diary"


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.db").mkdir()
    assert "is a folder" in _refusal(tmp_path / "a.db")


def test_a_state_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("x")
    assert "STRATA_STATE_DIR" in _refusal(tmp_path / "state" / "a.db")


@pytest.mark.parametrize("left", [100, 5000, 200_000])
def test_a_truncated_file_is_refused(tmp_path: Path, left: int) -> None:
    path = tmp_path / "a.db"
    _filled(path)
    os.truncate(path, left)
    assert "damaged" in _refusal(path)


def test_nothing_is_made_to_be_read_only(tmp_path: Path) -> None:
    assert "no store" in _refusal(tmp_path / "a.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_the_right_to_write_is_refused(tmp_path: Path) -> None:
    """As an unprivileged user, since root may write anywhere."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    if os.getuid() != 0:
        folder.chmod(0o555)
        assert "STRATA_STATE_DIR" in _refusal(folder / "a.db")
        return
    with tempfile.TemporaryDirectory() as reachable:
        Path(reachable).chmod(0o755)
        assert "STRATA_STATE_DIR" in _refusal_as_nobody(Path(reachable) / "a.db")


def _refusal_as_nobody(path: Path) -> str:
    code = (
        "import os, sys\n"
        "sys.path[:0] = sys.argv[2].split(os.pathsep)\n"
        "from pathlib import Path\n"
        "from strata_daemon.base.errors import PreflightError\n"
        "from strata_daemon.base.runtime.real import RealRuntime\n"
        "from strata_daemon.stores.sqlite.database import Schema, open_database\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try:\n    open_database(Path(sys.argv[1]), Schema(1, 1, ()), RealRuntime())\n"
        "except PreflightError as exc:\n    print(exc)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), os.pathsep.join(p for p in sys.path if p)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.stdout


def test_a_full_disk_is_an_unavailable_store_and_loses_nothing(tmp_path: Path) -> None:
    """max_page_count stands for the disk: SQLite answers SQLITE_FULL in both cases."""
    path = tmp_path / "a.db"
    database = _open(path)
    with database.write() as connection:
        connection.execute("INSERT INTO t VALUES ('kept', x'00')")
        connection.execute("PRAGMA max_page_count = 4").fetchall()
    with pytest.raises(StoreUnavailable, match="full"), database.write() as connection:
        connection.execute("INSERT INTO t VALUES ('big', zeroblob(1000000))")
    with database.read() as connection:
        assert connection.execute("SELECT k FROM t").fetchall() == [("kept",)]
    database.close()


def test_a_write_that_fails_is_taken_back_whole(tmp_path: Path) -> None:
    database = _open(tmp_path / "a.db")
    with pytest.raises(StoreUnavailable), database.write() as connection:
        connection.execute("INSERT INTO t VALUES ('a', NULL)")
        connection.execute("INSERT INTO nowhere VALUES (1)")
    with pytest.raises(ZeroDivisionError), database.write() as connection:
        connection.execute("INSERT INTO t VALUES ('b', NULL)")
        _ = 1 // 0
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    database.close()


def test_a_file_that_another_holds_is_unavailable_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    first = _open(path)
    second = open_database(path, SCHEMA, RealRuntime(), busy_s=0.05)
    with first.write() as connection:
        connection.execute("INSERT INTO t VALUES ('a', NULL)")
        with pytest.raises(StoreUnavailable, match="locked"), second.write():
            pass
    second.close()
    first.close()


def test_a_write_that_waits_for_another_process_keeps_neither_a_read_nor_the_close_waiting(tmp_path: Path) -> None:
    path, runtime = tmp_path / "a.db", RealRuntime()
    database = _open(path)
    ended: list[Exception] = []

    def write() -> None:
        try:
            with database.write() as connection:
                connection.execute("INSERT INTO t VALUES ('a', NULL)")
        except StoreUnavailable as exc:
            ended.append(exc)

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        writer = runtime.spawn("writer", write)
        began = runtime.now()
        for _ in range(5):
            with database.read() as connection:
                assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        database.close()
        assert runtime.now() - began < 1.0
        assert writer.join(2.0)
        other.execute("ROLLBACK")
    assert len(ended) == 1 and "closed" in str(ended[0])


MOUNTS = """22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /srv/shared rw,relatime shared:2 - nfs4 10.0.0.1:/x rw,vers=4.2
31 30 0:27 / /srv/shared/local rw - xfs /dev/vdb rw
32 22 0:28 / /mnt/a\\040b rw - cifs //host/share rw
33 22 0:29 / /home/u/ssh rw - fuse.sshfs u@h: rw
34 22 0:30 / /over rw - tmpfs tmpfs rw
35 34 0:31 / /over rw - ceph 10.0.0.2:/ rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/strata", "ext4"),
        ("/srv/shared", "nfs4"),
        ("/srv/shared/deep/er", "nfs4"),
        ("/srv/sharedness", "ext4"),
        ("/srv/shared/local/x", "xfs"),
        ("/mnt/a b/c", "cifs"),
        ("/home/u/ssh/x", "fuse.sshfs"),
        ("/over/x", "ceph"),
    ],
)
def test_the_deepest_and_last_mount_tells_the_file_system(path: str, kind: str) -> None:
    assert file_system(PurePosixPath(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path} rw - {kind} y rw\n"
    with pytest.raises(PreflightError, match=kind):
        refuse_network(tmp_path / "state", mounts)


def test_a_local_file_system_is_not_refused(tmp_path: Path) -> None:
    refuse_network(tmp_path)
