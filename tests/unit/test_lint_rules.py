"""The lint refuses what goes round the runtime: a rule that does not bite is worse than none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SNIPPETS = {
    "import time\n\ntime.sleep(1)\n": "time.sleep",
    "from time import monotonic\n\nmonotonic()\n": "time.monotonic",
    "import time\n\ntime.time()\n": "time.time",
    "import threading\n\nthreading.Thread(target=print)\n": "threading.Thread",
    "from threading import Timer\n\nTimer(1, print)\n": "threading.Timer",
    "import threading\n\nthreading.Event()\n": "threading.Event",
    "import threading\n\nthreading.Condition()\n": "threading.Condition",
    "import queue\n\nqueue.Queue()\n": "queue.Queue",
    "from queue import SimpleQueue\n\nSimpleQueue()\n": "queue.SimpleQueue",
    "from concurrent.futures import ThreadPoolExecutor\n\nThreadPoolExecutor()\n": "concurrent.futures",
    "from datetime import datetime\n\ndatetime.now()\n": "datetime.datetime.now",
    "import os\n\nos.environ\n": "os.environ",
    "import os\n\nos.getenv('A')\n": "os.getenv",
    "import os\n\nos._exit(1)\n": "os._exit",
    "import random\n\nrandom.random()\n": "random",
    "import signal\n\nsignal.signal(2, print)\n": "signal.signal",
}


def broken_rules(snippet: str, path: str) -> str:
    """What ruff says about a snippet as if it stood at `path`."""
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--output-format", "json", "--no-cache"]
    done = subprocess.run(
        [*command, "--stdin-filename", path, "-"],
        input=snippet,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=30,
    )
    assert done.returncode in (0, 1), done.stderr
    return " ".join(f"{found['code']} {found['message']}" for found in json.loads(done.stdout))


@pytest.mark.parametrize("snippet", SNIPPETS, ids=SNIPPETS.values())
def test_a_call_round_the_runtime_is_a_lint_error(snippet: str) -> None:
    found = broken_rules(snippet, "strata_daemon/leader/anything.py")
    assert f"TID251 `{SNIPPETS[snippet]}" in found


def test_the_runtime_itself_and_the_tests_may() -> None:
    everything = "".join(SNIPPETS)
    assert broken_rules(everything, "strata_daemon/base/runtime/real.py") == ""
    assert broken_rules(everything, "tests/process/test_x.py") == ""


def test_only_settings_read_the_environment() -> None:
    snippet = "import os\n\nos.environ\n"
    assert broken_rules(snippet, "strata_daemon/settings.py") == ""
    assert "os.environ" in broken_rules(snippet, "strata_daemon/cli/run.py")


def test_what_is_allowed_is_not_refused() -> None:
    assert broken_rules("import threading\n\nthreading.Lock()\nthreading.get_ident()\n", "strata_daemon/app.py") == ""
