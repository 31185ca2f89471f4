"""Format, of `tests/table`."""
