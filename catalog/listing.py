"""One page of names: a query's rows after a token, in code-point order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Which names of a list are wanted."""

    after: str | None = None
    """The last name of the page before; names up to it are left out."""
    limit: int | None = None
    like: str | None = None
    """A pattern for SQL's LIKE."""

    def where(self, column: str) -> str:
        """The conditions on a column, for a query whose parameters include `values`; begins with AND."""
        text = ""
        if self.after is not None:
            text += f" AND {column} > %(after)s"
        if self.like is not None:
            text += f" AND {column} LIKE %(like)s"
        return text

    def limited(self) -> str:
        """The LIMIT clause, where there is a limit."""
        return " LIMIT %(limit)s" if self.limit is not None else ""

    def values(self) -> dict[str, object]:
        """The parameters the texts name."""
        return {"after": self.after, "like": self.like, "limit": self.limit}


EVERYTHING = Slice()
