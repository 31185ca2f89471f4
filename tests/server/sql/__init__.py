"""Sql, of `tests/server`."""
