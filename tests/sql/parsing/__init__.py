"""Parsing, of `tests/sql`."""
