"""How names and texts are written into SQL: advice, pages and SHOW quote them here, and nowhere else."""

from __future__ import annotations


def quote(name: str) -> str:
    """Backquote a name for SQL text."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal, in which a backslash escapes as in Spark."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
