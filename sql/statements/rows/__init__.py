"""Statements that change rows: DELETE, UPDATE, MERGE."""
