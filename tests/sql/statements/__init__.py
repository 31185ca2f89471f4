"""Statements, of `tests/sql`."""
