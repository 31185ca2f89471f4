"""Access, of `tests/server`."""
