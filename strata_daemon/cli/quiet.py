"""For commands that tell in sentences what they found: nothing else may write between them."""

from __future__ import annotations

import logging


def silence_libraries() -> None:
    """Without a log that is set up, Python would print each warning of a library to stderr."""
    logging.getLogger().addHandler(logging.NullHandler())
