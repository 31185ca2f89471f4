"""Databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

from psycopg import Connection, errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.listing import EVERYTHING, Slice
from catalog.records import DatabaseRow
from model.errors import DatabaseAlreadyExist, DatabaseNotEmpty, DatabaseNotExist

COMMENT = "comment"
"""The option that clients of the REST catalog set a database's comment by; it is kept as the comment, and not among the options."""
COMMENT_OF_DATABASE: LiteralString = f"coalesce(d.options ->> '{COMMENT}', d.comment)"
"""The comment of a row ``d``: earlier versions kept what was changed later among the options, where nobody saw it."""


class DatabaseRepository:
    """Reads and writes ``sluice_database`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def names(self, wanted: Slice = EVERYTHING) -> list[str]:
        """The names wanted, in code-point order."""
        query = f"SELECT name FROM sluice_database WHERE true{wanted.where('name')} ORDER BY name{wanted.limited()}"  # noqa: S608
        return [name for (name,) in self._conn.execute(query, wanted.values()).fetchall()]

    def get(self, name: str) -> DatabaseRow:
        """The database; raises `DatabaseNotExist`."""
        query = f"""
            SELECT name, {COMMENT_OF_DATABASE} AS comment, options - '{COMMENT}' AS options, owner,
                   created_at, created_by, updated_at, updated_by
            FROM sluice_database d WHERE name = %s
        """  # noqa: S608
        with self._conn.cursor(row_factory=class_row(DatabaseRow)) as cur:
            row = cur.execute(query, (name,)).fetchone()
        if row is None:
            raise DatabaseNotExist(name)
        return row

    def create(self, name: str, *, comment: str | None, options: Mapping[str, str], by: str | None = None) -> None:
        """Add it; raises `DatabaseAlreadyExist`."""
        query = """
            INSERT INTO sluice_database (name, comment, options, owner, created_by, updated_by)
            VALUES (%(name)s, %(comment)s, %(options)s, %(by)s, %(by)s, %(by)s)
        """
        try:
            with self._conn.transaction():
                self._conn.execute(query, {"name": name, "comment": comment, "options": Jsonb(dict(options)), "by": by})
        except errors.UniqueViolation as clash:
            raise DatabaseAlreadyExist(name) from clash

    def lock(self, name: str) -> DatabaseRow:
        """The database, held until the transaction ends against being dropped and against new tables, views and functions."""
        self._conn.execute("SELECT 1 FROM sluice_database WHERE name = %s FOR UPDATE", (name,))
        return self.get(name)

    def change(self, name: str, *, comment: str | None, options: Mapping[str, str], by: str | None = None) -> None:
        """Replace its comment and its options."""
        query = """
            UPDATE sluice_database SET comment = %s, options = %s, updated_at = now(), updated_by = coalesce(%s, updated_by) WHERE name = %s
        """
        self._conn.execute(query, (comment, Jsonb(dict(options)), by, name))

    def require_empty(self, name: str) -> None:
        """Raise `DatabaseNotEmpty` while there are tables, views or functions in it."""
        counts = """
            SELECT (SELECT count(*) FROM sluice_table WHERE database = %(name)s),
                   (SELECT count(*) FROM catalog_view WHERE database = %(name)s),
                   (SELECT count(*) FROM catalog_function WHERE database = %(name)s)
        """
        row = self._conn.execute(counts, {"name": name}).fetchone()
        if row is not None and any(row):
            raise DatabaseNotEmpty(name, tables=int(row[0]), views=int(row[1]), functions=int(row[2]))
