"""Connectors, of `tests/sql`."""
