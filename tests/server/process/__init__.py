"""Process, of `tests/server`."""
