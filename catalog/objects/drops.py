"""What is dropped and still kept: databases and tables that can be brought back until their time is over.

A dropped row stays in its ``…_entry`` table, marked with its drop; the views ``sluice_table``, ``sluice_database``, ``catalog_view``
and ``catalog_function``, which all else reads, do not show it. Only this module and what asks whether a place is taken look past them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from psycopg import errors
from psycopg.rows import class_row

from catalog.connection import CatalogConnection
from catalog.objects.directories import DISCARD
from model.errors import DatabaseAlreadyExist, DatabaseNotExist, TableAlreadyExist
from model.identifier import MAIN_BRANCH, Identifier

_TABLES = """
    SELECT d.drop_id, t.table_id, coalesce(g.database, t.database) AS database, t.name, t.database AS kept_in, e.drop_id IS NULL AS housed,
           CASE WHEN t.external THEN NULL ELSE coalesce(t.moving_from, t.location) END AS own_directory, t.location,
           d.parent AS dropped_with, d.dropped_at, d.dropped_by, d.expires_at, coalesce(p.record_count, 0) AS record_count,
           coalesce(p.file_size, 0) AS file_size
    FROM table_entry t JOIN drop_record d ON d.drop_id = t.drop_id JOIN database_entry e ON e.name = t.database
    LEFT JOIN drop_record g ON g.drop_id = e.drop_id
    LEFT JOIN snapshot_pointer p ON p.table_id = t.table_id AND p.branch = 'main'
"""
_DATABASES = """
    SELECT d.drop_id, d.database AS name, e.name AS kept_as, d.dropped_at, d.dropped_by, d.expires_at,
           (SELECT count(*) FROM table_entry t JOIN drop_record r ON r.drop_id = t.drop_id WHERE r.parent = d.drop_id) AS tables
    FROM database_entry e JOIN drop_record d ON d.drop_id = e.drop_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """A table that was dropped and is kept."""

    drop_id: int
    table_id: UUID
    database: str
    """The database it was in, by the name it had."""
    name: str
    kept_in: str
    """The database it is in, as the catalog's rows have it: where that was dropped too, a name nobody can type."""
    housed: bool
    """Whether that database is there."""
    own_directory: str | None
    """The directory that goes with it; None for an external table, whose files are its maker's."""
    location: str
    dropped_with: int | None
    """The drop of its database, where it went with that."""
    dropped_at: dt.datetime
    dropped_by: str | None
    expires_at: dt.datetime
    record_count: int | None
    """Rows of its latest snapshot, and its bytes: those of older snapshots come on top. None for who is not to know."""
    file_size: int | None

    @property
    def identifier(self) -> Identifier:
        """The name it had."""
        return Identifier(self.database, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedDatabase:
    """A database that was dropped and is kept, with the tables that went with it and are kept."""

    drop_id: int
    name: str
    kept_as: str
    """What the catalog's rows call it."""
    dropped_at: dt.datetime
    dropped_by: str | None
    expires_at: dt.datetime
    tables: int


class DropRepository:
    """Reads and writes ``drop_record`` and what is marked with it, inside the caller's transaction; the clock is Postgres's."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def in_turn(self) -> None:
        """Let no other drop of a database, nor any bringing back or removing, run until the transaction ends.

        They hold rows of databases, tables and drops in orders of their own, and would wait for each other in a circle.
        """
        self._conn.later("SELECT pg_advisory_xact_lock(hashtextextended('sluice drops', 0))", ())

    # Dropping

    def keep_table(self, table_id: UUID, *, by: str | None, retention: timedelta, parent: int | None = None) -> int:
        """Drop a table that can be brought back for so long; returns the drop's id."""
        drop_id = self._record(None, by=by, retention=retention, parent=parent)
        self._conn.later("UPDATE table_entry SET drop_id = %s WHERE table_id = %s", (drop_id, table_id))
        return drop_id

    def keep_database(self, name: str, *, by: str | None, retention: timedelta) -> int:
        """Drop a database that can be brought back, with its views and functions; its tables are dropped by themselves."""
        drop_id = self._record(name, by=by, retention=retention, parent=None)
        values = {"drop": drop_id, "name": name, "hidden": f"dropped/{uuid4().hex}"}
        self._conn.execute("UPDATE database_entry SET name = %(hidden)s, drop_id = %(drop)s WHERE name = %(name)s", values)
        for entry in ("view_entry", "function_entry"):
            self._conn.execute(f"UPDATE {entry} SET drop_id = %(drop)s WHERE database = %(hidden)s", values)  # noqa: S608 - of two literals
        return drop_id

    def _record(self, database: str | None, *, by: str | None, retention: timedelta, parent: int | None) -> int:
        query = "INSERT INTO drop_record (database, parent, dropped_by, expires_at) VALUES (%s, %s, %s, now() + %s) RETURNING drop_id"
        row = self._conn.execute(query, (database, parent, by, retention)).fetchone()
        assert row is not None
        return int(row[0])

    # What is kept

    def tables(self, *, database: str | None = None, table: str | None = None, drop_id: int | None = None) -> list[DroppedTable]:
        """Kept tables, the newest drop first; of a database, of a name, or of one drop."""
        query = f"""
            {_TABLES} WHERE (%(database)s::text IS NULL OR coalesce(g.database, t.database) = %(database)s)
              AND (%(table)s::text IS NULL OR t.name = %(table)s) AND (%(drop)s::bigint IS NULL OR d.drop_id = %(drop)s)
            ORDER BY d.drop_id DESC
        """
        with self._conn.cursor(row_factory=class_row(DroppedTable)) as cur:
            return cur.execute(query, {"database": database, "table": table, "drop": drop_id}).fetchall()

    def databases(self, *, name: str | None = None, drop_id: int | None = None) -> list[DroppedDatabase]:
        """Kept databases, the newest drop first."""
        query = f"""
            {_DATABASES} WHERE (%(name)s::text IS NULL OR d.database = %(name)s) AND (%(drop)s::bigint IS NULL OR d.drop_id = %(drop)s)
            ORDER BY d.drop_id DESC
        """
        with self._conn.cursor(row_factory=class_row(DroppedDatabase)) as cur:
            return cur.execute(query, {"name": name, "drop": drop_id}).fetchall()

    def of_database(self, drop_id: int) -> list[DroppedTable]:
        """The kept tables that went with a database."""
        with self._conn.cursor(row_factory=class_row(DroppedTable)) as cur:
            return cur.execute(f"{_TABLES} WHERE d.parent = %s ORDER BY t.name", (drop_id,)).fetchall()

    def lock(self, drop_id: int) -> bool:
        """Keep others from bringing it back or removing it until the transaction ends; False where that is done already."""
        return self._conn.execute("SELECT 1 FROM drop_record WHERE drop_id = %s FOR UPDATE", (drop_id,)).fetchone() is not None

    # Bringing back

    def bring_back_table(self, dropped: DroppedTable, to: Identifier) -> None:
        """Make it a table again; raises `TableAlreadyExist` or `DatabaseNotExist`."""
        query = "UPDATE table_entry SET drop_id = NULL, database = %s, name = %s, updated_at = now() WHERE table_id = %s"
        try:
            with self._conn.transaction():
                self._conn.execute(query, (to.database, to.table, dropped.table_id))
        except errors.UniqueViolation as clash:
            raise TableAlreadyExist(str(to)) from clash
        except errors.ForeignKeyViolation as missing:
            raise DatabaseNotExist(to.database) from missing
        self._forget([dropped.drop_id])

    def bring_back_database(self, dropped: DroppedDatabase, name: str) -> None:
        """Make it a database again with its views and functions and the tables that went with it; raises `DatabaseAlreadyExist`."""
        values = {"name": name, "drop": dropped.drop_id}
        try:
            with self._conn.transaction():
                query = "UPDATE database_entry SET name = %(name)s, drop_id = NULL, updated_at = now() WHERE drop_id = %(drop)s"
                self._conn.execute(query, values)
        except errors.UniqueViolation as clash:
            raise DatabaseAlreadyExist(name) from clash
        for entry in ("view_entry", "function_entry"):
            self._conn.execute(f"UPDATE {entry} SET drop_id = NULL WHERE drop_id = %(drop)s", values)  # noqa: S608 - of two literals
        back = self._conn.execute(
            """
            UPDATE table_entry t SET drop_id = NULL FROM (SELECT drop_id FROM drop_record WHERE parent = %(drop)s) d
            WHERE t.drop_id = d.drop_id RETURNING d.drop_id
            """,
            values,
        ).fetchall()
        self._forget([*(drop_id for (drop_id,) in back), dropped.drop_id])

    # Removing

    def remove_table(self, dropped: DroppedTable) -> None:
        """Remove it for good; its directory is garbage from now on."""
        if dropped.own_directory is not None:
            self._conn.execute(DISCARD, {"location": dropped.own_directory, "table": dropped.table_id, "branch": MAIN_BRANCH})
        self._conn.execute("DELETE FROM table_entry WHERE table_id = %s AND drop_id = %s", (dropped.table_id, dropped.drop_id))
        self._forget([dropped.drop_id])

    def remove_database(self, dropped: DroppedDatabase) -> bool:
        """Remove it for good with its views and functions; False while tables that were in it are kept."""
        if self._conn.execute("SELECT 1 FROM table_entry WHERE database = %s LIMIT 1", (dropped.kept_as,)).fetchone() is not None:
            return False
        for entry in ("view_entry", "function_entry", "database_entry"):
            self._conn.execute(f"DELETE FROM {entry} WHERE drop_id = %s", (dropped.drop_id,))  # noqa: S608 - of three literals
        self._forget([dropped.drop_id])
        return True

    def _forget(self, drops: Iterable[int]) -> None:
        self._conn.execute("DELETE FROM drop_record WHERE drop_id = ANY(%s)", (list(drops),))

    def expired(self, *, limit: int, but: Collection[int] = ()) -> list[int]:
        """Drops whose time is over, the oldest first, locked; those another server is at are left out.

        A database is among them once no table that was in it is kept.
        """
        query = """
            SELECT d.drop_id FROM drop_record d WHERE d.expires_at <= now() AND d.drop_id <> ALL(%s) AND (d.database IS NULL OR NOT EXISTS (
                SELECT 1 FROM database_entry e JOIN table_entry t ON t.database = e.name WHERE e.drop_id = d.drop_id))
            ORDER BY d.expires_at LIMIT %s FOR UPDATE OF d SKIP LOCKED
        """
        return [drop_id for (drop_id,) in self._conn.execute(query, (list(but), limit)).fetchall()]
