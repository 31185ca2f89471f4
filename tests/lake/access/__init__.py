"""Access, of `tests/lake`."""
