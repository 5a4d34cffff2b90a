"""strata-daemon: the background work of a Strata object store as a daemon of its own."""

__version__ = "0.1.0"
