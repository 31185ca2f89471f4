"""Compaction, of `tests/table`."""
