"""Scan, of `tests/table`."""
