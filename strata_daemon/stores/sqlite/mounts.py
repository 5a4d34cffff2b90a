"""On which kind of file system a path lies: SQLite's locks do not hold over a network."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from strata_daemon.base.errors import PreflightError

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "gfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"}
)
NETWORK |= {"ocfs2", "orangefs", "smb2", "smb3", "smbfs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"}


def file_system(path: PurePosixPath, mounts: str) -> str:
    """The type of the file system that holds the absolute `path`, by the text of a mountinfo table; "" when no line
    covers it. The longest mount point wins, of equal ones the last."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 10 or "-" not in fields:
            continue
        point = PurePosixPath(_unescape(fields[4]))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[fields.index("-") + 1]
    return kind


def _unescape(field: str) -> str:
    """mountinfo writes blanks and the like as octal escapes."""
    for code in ("040", "011", "012", "134"):
        field = field.replace(f"\\{code}", chr(int(code, 8)))
    return field


def refuse_network(path: Path, mounts: str | None = None) -> None:
    """Raises PreflightError when `path` lies on a network file system."""
    table = MOUNTS.read_text("utf-8", "replace") if mounts is None else mounts
    kind = file_system(PurePosixPath(path.resolve()), table)
    if kind in NETWORK:
        raise PreflightError(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold:"
            " choose a folder on a local disk by STRATA_STATE_DIR."
        )
