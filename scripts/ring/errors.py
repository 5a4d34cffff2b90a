"""The one error of a ring: its text is a sentence for the person at the terminal. Nothing else lives here."""

from __future__ import annotations


class RingError(Exception):
    """What was asked for cannot be done; the text says why and what to do."""
