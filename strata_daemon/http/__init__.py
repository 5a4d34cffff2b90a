"""The HTTP face: health, readiness, metrics. Shows the snapshot; changes nothing."""
