"""Parameters of a statement: placeholders, types and values."""
