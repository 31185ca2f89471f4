"""Rewrite, of `tests/lake`."""
