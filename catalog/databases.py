"""Databases."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import Connection, errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.records import DatabaseRow
from model.errors import DatabaseAlreadyExist, DatabaseNotEmpty, DatabaseNotExist


class DatabaseRepository:
    """Reads and writes ``sluice_database`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def names(self) -> list[str]:
        """All names, in code-point order."""
        return [name for (name,) in self._conn.execute("SELECT name FROM sluice_database ORDER BY name").fetchall()]

    def get(self, name: str) -> DatabaseRow:
        """The database; raises `DatabaseNotExist`."""
        with self._conn.cursor(row_factory=class_row(DatabaseRow)) as cur:
            row = cur.execute("SELECT name, comment, options FROM sluice_database WHERE name = %s", (name,)).fetchone()
        if row is None:
            raise DatabaseNotExist(name)
        return row

    def create(self, name: str, *, comment: str | None, options: Mapping[str, str]) -> None:
        """Add it; raises `DatabaseAlreadyExist`."""
        query = "INSERT INTO sluice_database (name, comment, options) VALUES (%s, %s, %s)"
        try:
            with self._conn.transaction():
                self._conn.execute(query, (name, comment, Jsonb(dict(options))))
        except errors.UniqueViolation as clash:
            raise DatabaseAlreadyExist(name) from clash

    def set_options(self, name: str, options: Mapping[str, str]) -> None:
        """Replace its options."""
        self._conn.execute("UPDATE sluice_database SET options = %s WHERE name = %s", (Jsonb(dict(options)), name))

    def drop(self, name: str) -> None:
        """Remove it; raises `DatabaseNotExist` or, while it has tables, `DatabaseNotEmpty`."""
        try:
            with self._conn.transaction():
                gone = self._conn.execute("DELETE FROM sluice_database WHERE name = %s", (name,)).rowcount
        except errors.ForeignKeyViolation as held:
            row = self._conn.execute("SELECT count(*) FROM sluice_table WHERE database = %s", (name,)).fetchone()
            raise DatabaseNotEmpty(name, int(row[0]) if row else 0) from held
        if not gone:
            raise DatabaseNotExist(name)
