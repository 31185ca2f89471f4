"""Retention, of `tests/table`."""
