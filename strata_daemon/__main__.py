"""`python -m strata_daemon`: the same as the command `strata-daemon`."""

from __future__ import annotations

from strata_daemon.cli.main import main

if __name__ == "__main__":
    main()
