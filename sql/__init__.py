"""The language: text in, rows out."""
