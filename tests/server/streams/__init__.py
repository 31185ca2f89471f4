"""Streams, of `tests/server`."""
