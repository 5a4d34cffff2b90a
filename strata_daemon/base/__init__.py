"""What every other layer stands on: time and threads, errors, log, metrics, back-off. Knows nothing of leases."""
