"""Floor: a Python process that has imported what the daemon imports, and then does nothing.

libraries.py               imports and exits
libraries.py sleep         imports, says so in one line, and sleeps until it is killed
libraries.py settings      imports what reading the settings needs, and exits
"""

from __future__ import annotations

import importlib
import json
import sys
import threading

SETTINGS = ("click", "durationpy", "pydantic")
DAEMON = (
    *SETTINGS,
    "falcon",
    "google.protobuf.message",
    "opentelemetry.trace",
    "prometheus_client",
    "pythonjsonlogger.json",
    "sqlite3",
    "waitress",
)


def load(names: tuple[str, ...] = DAEMON) -> None:
    for name in names:
        importlib.import_module(name)


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    load(SETTINGS if what == "settings" else DAEMON)
    if what == "sleep":
        print(json.dumps({"msg": "daemon started"}), flush=True)
        threading.Event().wait()
