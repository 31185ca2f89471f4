"""Tables and the versions of their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg import Connection, errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.records import TableRow
from model.errors import CommitConflict, DatabaseNotExist, TableAlreadyExist, TableNotExist
from model.identifier import Identifier

_SELECT = """
    SELECT t.table_id, t.database, t.name, t.location, t.schema_id, t.published_schema_id, t.moving_from, t.diverged_at,
           s.body AS schema
    FROM sluice_table t JOIN table_schema s ON s.table_id = t.table_id AND s.schema_id = t.schema_id
"""


class TableRepository:
    """Reads and writes ``sluice_table`` and ``table_schema`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def names(self, database: str) -> list[str]:
        """The names of a database's tables, in code-point order."""
        query = "SELECT name FROM sluice_table WHERE database = %s ORDER BY name"
        return [name for (name,) in self._conn.execute(query, (database,)).fetchall()]

    def find(self, table: Identifier) -> TableRow | None:
        """The table, or None."""
        with self._conn.cursor(row_factory=class_row(TableRow)) as cur:
            return cur.execute(_SELECT + "WHERE t.database = %s AND t.name = %s", (table.database, table.table)).fetchone()

    def get(self, table: Identifier) -> TableRow:
        """The table; raises `TableNotExist`."""
        row = self.find(table)
        if row is None:
            raise TableNotExist(f"{table.database}.{table.table}")
        return row

    def find_for_commit(self, table: Identifier) -> TableRow | None:
        """The table, or None; it cannot be dropped, renamed or repaired before the transaction ends, while commits and ALTER go on."""
        with self._conn.cursor(row_factory=class_row(TableRow)) as cur:
            query = _SELECT + "WHERE t.database = %s AND t.name = %s FOR KEY SHARE OF t"
            return cur.execute(query, (table.database, table.table)).fetchone()

    def lock(self, table: Identifier) -> TableRow:
        """The table, held against other changes of its row until the transaction ends."""
        query = "SELECT table_id FROM sluice_table WHERE database = %s AND name = %s FOR UPDATE"
        self._conn.execute(query, (table.database, table.table))
        return self.get(table)

    def lock_retention(self, table: Identifier) -> tuple[UUID, str] | None:
        """The table's id and location, held against other changes of what is retained; commits, which only read the row, go on."""
        query = "SELECT table_id, location FROM sluice_table WHERE database = %s AND name = %s FOR NO KEY UPDATE"
        row = self._conn.execute(query, (table.database, table.table)).fetchone()
        return None if row is None else (row[0], row[1])

    def all(self) -> list[TableRow]:
        """Every table."""
        with self._conn.cursor(row_factory=class_row(TableRow)) as cur:
            return cur.execute(_SELECT + "ORDER BY t.database, t.name").fetchall()

    def create(self, table: Identifier, table_id: UUID, *, location: str, schema_id: int, schema: Mapping[str, Any]) -> None:
        """Add it with its first schema; raises `TableAlreadyExist` or `DatabaseNotExist`."""
        query = "INSERT INTO sluice_table (table_id, database, name, location, schema_id) VALUES (%s, %s, %s, %s, %s)"
        try:
            with self._conn.transaction():
                self._conn.execute(query, (table_id, table.database, table.table, location, schema_id))
        except errors.UniqueViolation as clash:
            raise TableAlreadyExist(str(table)) from clash
        except errors.ForeignKeyViolation as missing:
            raise DatabaseNotExist(table.database) from missing
        self._add_schema(table_id, schema_id, schema)

    def _add_schema(self, table_id: UUID, schema_id: int, schema: Mapping[str, Any]) -> None:
        query = "INSERT INTO table_schema (table_id, schema_id, body) VALUES (%s, %s, %s)"
        self._conn.execute(query, (table_id, schema_id, Jsonb(dict(schema))))

    def advance_schema(self, table_id: UUID, *, base: int, to: int, schema: Mapping[str, Any]) -> None:
        """Make the next version current; raises `CommitConflict` when another ALTER was first."""
        query = "UPDATE sluice_table SET schema_id = %s WHERE table_id = %s AND schema_id = %s"
        if self._conn.execute(query, (to, table_id, base)).rowcount == 0:
            raise CommitConflict(str(table_id), expected=f"schema {base}")
        self._add_schema(table_id, to, schema)

    def schema(self, table_id: UUID, schema_id: int) -> Mapping[str, Any] | None:
        """One version of the schema, or None."""
        row = self._conn.execute("SELECT body FROM table_schema WHERE table_id = %s AND schema_id = %s", (table_id, schema_id)).fetchone()
        return None if row is None else dict(row[0])

    def schema_published(self, table_id: UUID, schema_id: int) -> None:
        """Note that the file of this version and of all before it exist."""
        query = "UPDATE sluice_table SET published_schema_id = greatest(published_schema_id, %s) WHERE table_id = %s"
        self._conn.execute(query, (schema_id, table_id))

    def rename(self, table_id: UUID, to: Identifier, *, location: str, moving_from: str | None) -> None:
        """Give it another name; ``moving_from`` says where its files still lie."""
        query = "UPDATE sluice_table SET database = %s, name = %s, location = %s, moving_from = %s WHERE table_id = %s"
        try:
            with self._conn.transaction():
                self._conn.execute(query, (to.database, to.table, location, moving_from, table_id))
        except errors.UniqueViolation as clash:
            raise TableAlreadyExist(str(to)) from clash
        except errors.ForeignKeyViolation as missing:
            raise DatabaseNotExist(to.database) from missing

    def moved(self, table_id: UUID) -> None:
        """Note that the files lie where they belong."""
        self._conn.execute("UPDATE sluice_table SET moving_from = NULL WHERE table_id = %s", (table_id,))

    def set_diverged(self, table_id: UUID, path: str | None) -> None:
        """Mark the table as written past the catalog, or clear the mark."""
        self._conn.execute("UPDATE sluice_table SET diverged_at = %s WHERE table_id = %s", (path, table_id))

    def drop(self, table_id: UUID, location: str) -> None:
        """Remove it and remember its directory as garbage."""
        self._conn.execute("DELETE FROM sluice_table WHERE table_id = %s", (table_id,))
        self._conn.execute("INSERT INTO dropped_directory (location) VALUES (%s) ON CONFLICT DO NOTHING", (location,))

    def dropped_directories(self) -> list[str]:
        """Directories of dropped tables that may still hold files."""
        return [location for (location,) in self._conn.execute("SELECT location FROM dropped_directory").fetchall()]

    def lock_location(self, location: str) -> bool:
        """Keep others from making or removing this directory until the transaction ends; True when it is garbage now."""
        self._conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (location,))
        return self._conn.execute("SELECT 1 FROM dropped_directory WHERE location = %s", (location,)).fetchone() is not None

    def directory_removed(self, location: str) -> None:
        """Forget a directory that is gone."""
        self._conn.execute("DELETE FROM dropped_directory WHERE location = %s", (location,))

    def location_in_use(self, location: str) -> bool:
        """Whether a table lies there or is being moved away from there."""
        query = "SELECT 1 FROM sluice_table WHERE location = %s OR moving_from = %s"
        return self._conn.execute(query, (location, location)).fetchone() is not None
