"""Floor: a bare loop of what a gc drain of real files does. Unlinks a page's chunk files, syncs each touched folder
once, deletes the rows, commits.

    gc_files.py STATE_FOLDER BATCH [--empty]

One thread, no lease, no log, no check of a name. With --empty it must find no row. The
folder of a chunk is its logical shard in hex.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from gc_rows import Row, drain, require_rows


def unlink_under(root: str) -> Callable[[Sequence[Row]], None]:
    def unlink(page: Sequence[Row]) -> None:
        by_folder: defaultdict[str, list[str]] = defaultdict(list)
        for _, shard, _, oid, cluster, _, _ in page:
            by_folder[f"{root}/{cluster}/chunks/{shard:03x}"].append(oid)
        for folder, oids in by_folder.items():
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            for oid in oids:
                os.unlink(oid, dir_fd=fd)
            os.fsync(fd)
            os.close(fd)

    return unlink


if __name__ == "__main__":
    require_rows(drain(Path(sys.argv[1]), int(sys.argv[2]), unlink_under(f"{sys.argv[1]}/data")))
