"""Write, of `tests/table`."""
