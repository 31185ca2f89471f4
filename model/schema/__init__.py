"""Types, fields and schemas of tables, and how a schema changes."""
