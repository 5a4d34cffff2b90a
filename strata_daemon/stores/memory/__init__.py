"""Stores that live in memory and die with the process."""
