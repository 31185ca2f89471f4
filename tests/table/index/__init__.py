"""Index, of `tests/table`."""
