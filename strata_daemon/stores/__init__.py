"""Implementations of the ports, one folder a technology; the only place that imports a driver."""
