"""Names of tables, and how they are written in SQL and in messages."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_DATABASE = "default"
MAIN_BRANCH = "main"


@dataclass(frozen=True, slots=True, order=True, kw_only=False)
class Identifier:
    """``database.table``, optionally on a branch."""

    database: str
    table: str
    branch: str = MAIN_BRANCH

    def __str__(self) -> str:
        name = f"{self.database}.{self.table}"
        return name if self.branch == MAIN_BRANCH else f"{name}$branch_{self.branch}"

    def quoted(self) -> str:
        """The name as SQL text, backquoted."""
        return ".".join(quote(part) for part in (self.database, self.table))


def quote(name: str) -> str:
    """Backquote a name for SQL text."""
    return "`" + name.replace("`", "``") + "`"
