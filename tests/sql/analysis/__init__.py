"""Analysis, of `tests/sql`."""
