"""Observe, of `tests/server`."""
