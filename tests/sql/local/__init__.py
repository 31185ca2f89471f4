"""Local, of `tests/sql`."""
