"""What workers need of the world, one protocol a need. Implementations live under `stores/`."""
