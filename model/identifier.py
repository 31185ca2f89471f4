"""Names of tables, and how they are written in SQL and in messages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from model.text.sql_text import quote

_BRANCH_FILE = re.compile(r"/branch/branch-([^/]+)/(?:snapshot|schema)/[^/]+$")
DEFAULT_DATABASE = "default"
MAIN_BRANCH = "main"
_PLAIN = re.compile(r"[^.`*]+")


@dataclass(frozen=True, slots=True, order=True, kw_only=False)
class Identifier:
    """``database.table``, optionally on a branch."""

    database: str
    table: str
    branch: str = MAIN_BRANCH

    def __str__(self) -> str:
        return ".".join(self._parts())

    def quoted(self) -> str:
        """The name as SQL text, backquoted."""
        return ".".join(quote(part) for part in self._parts())

    def written(self) -> str:
        """The name as text that `parse_name` reads: as people say it, and backquoted where that could mean another table."""
        return ".".join(part if _PLAIN.fullmatch(part) else quote(part) for part in self._parts())

    def of_file(self, path: str) -> Identifier:
        """The branch of the table that the file of a snapshot or schema, or a hint, belongs to, by its whole path."""
        return Identifier(self.database, self.table, branch_of_file(path))

    @property
    def object_name(self) -> str:
        """The name inside the database: ``t``, or ``t$branch_b`` on a branch."""
        return self.table if self.branch == MAIN_BRANCH else f"{self.table}$branch_{self.branch}"

    def _parts(self) -> tuple[str, str]:
        return self.database, self.object_name


def branch_of_file(path: str) -> str:
    """The branch that the file of a snapshot or schema, or a hint, belongs to, by its whole path."""
    of_branch = _BRANCH_FILE.search(path)
    return of_branch[1] if of_branch else MAIN_BRANCH
