"""Execution, of `tests/sql`."""
