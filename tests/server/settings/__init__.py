"""Settings, of `tests/server`."""
