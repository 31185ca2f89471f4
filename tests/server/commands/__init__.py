"""Commands, of `tests/server`."""
