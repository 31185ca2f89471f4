"""``INSERT INTO t [(columns)] VALUES (?, …)``, of which many rows of values are one commit."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_INSERT = re.compile(
    r"(?:\s|--[^\n]*\n|/\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/)*"
    rf"INSERT\s+INTO\s+(?P<table>(?:sluice\.)?{_NAME}(?:\.{_NAME})?)\s*(?:\((?P<columns>[^()?]*)\)\s*)?"
    r"VALUES\s*\((?P<marks>\s*\?(?:\s*,\s*\?)*\s*)\)\s*;?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PlainInsert:
    """Such a statement: its table and list of columns as they are written, and how many values a row has."""

    text: str
    table: str
    columns: str | None
    marks: str
    before: str
    """All of it in front of the first row."""

    @classmethod
    def of(cls, text: str) -> PlainInsert | None:
        """The statement of a text, None where it is anything else."""
        match = _INSERT.fullmatch(text)
        if match is None:
            return None
        return cls(text, match["table"], match["columns"], match["marks"], text[: match.start("marks") - 1])

    @property
    def width(self) -> int:
        """How many values a row has."""
        return self.marks.count("?")

    def asking_types(self) -> str:
        """A query without rows whose columns have the types of those that are filled."""
        return f"SELECT {self.columns or '*'} FROM {self.table} LIMIT 0"  # noqa: S608 - the parts of the user's own text

    def of_rows(self, count: int) -> str:
        """The statement with so many rows of placeholders."""
        return self.before + ", ".join([f"({self.marks})"] * count)
