"""Views and functions: bodies under names, in databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection, errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.listing import EVERYTHING, Slice
from catalog.records import NamedRow
from model.errors import DatabaseNotExist, ResourceError


class NamedRepository:
    """Reads and writes ``catalog_view`` or ``catalog_function`` inside the caller's transaction."""

    def __init__(self, conn: Connection, *, table: str, key: str, exists: type[ResourceError]) -> None:
        self._conn = conn
        self._table = table
        self._key = key
        self._exists = exists

    @property
    def _select(self) -> str:
        columns = f"{self._key} AS id, database, name, body, owner, created_at, created_by, updated_at, updated_by"
        return f"SELECT {columns} FROM {self._table}"  # noqa: S608 - both are named by the catalog's own transaction

    def find(self, database: str, name: str) -> NamedRow | None:
        """The one of that name, or None."""
        with self._conn.cursor(row_factory=class_row(NamedRow)) as cur:
            return cur.execute(f"{self._select} WHERE database = %s AND name = %s", (database, name)).fetchone()

    def find_all(self, names: Sequence[tuple[str, str]]) -> list[NamedRow]:
        """Those of these (database, name) pairs that exist."""
        databases, own = [database for database, _ in names], [name for _, name in names]
        query = f"{self._select} WHERE (database, name) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(NamedRow)) as cur:
            return cur.execute(query, (databases, own)).fetchall()

    def page(self, database: str, wanted: Slice = EVERYTHING) -> list[NamedRow]:
        """Those of a database that are wanted, by name."""
        query = f"{self._select} WHERE database = %(database)s{wanted.where('name')} ORDER BY name{wanted.limited()}"
        with self._conn.cursor(row_factory=class_row(NamedRow)) as cur:
            return cur.execute(query, {"database": database, **wanted.values()}).fetchall()

    def everywhere(self, *, databases: str | None, names: str | None, after: tuple[str, str] | None, limit: int) -> list[tuple[str, str]]:
        """Database and name over all databases, by both; two patterns for LIKE, and the last pair of the page before."""
        query = f"""
            SELECT database, name FROM {self._table}
            WHERE (%(databases)s::text IS NULL OR database LIKE %(databases)s) AND (%(names)s::text IS NULL OR name LIKE %(names)s)
              AND (%(after_database)s::text IS NULL OR (database, name) > (%(after_database)s, %(after_name)s))
            ORDER BY database, name LIMIT %(limit)s
        """  # noqa: S608
        after_database, after_name = after or (None, None)
        values = {"databases": databases, "names": names, "after_database": after_database, "after_name": after_name, "limit": limit}
        return [(database, name) for database, name in self._conn.execute(query, values).fetchall()]

    def create(self, database: str, name: str, body: Mapping[str, Any], *, by: str | None) -> UUID:
        """Add it and return its id; raises what says that the name is taken, or `DatabaseNotExist`."""
        made = uuid4()
        query = f"""
            INSERT INTO {self._table} ({self._key}, database, name, body, owner, created_by, updated_by)
            VALUES (%(id)s, %(database)s, %(name)s, %(body)s, %(by)s, %(by)s, %(by)s)
        """  # noqa: S608
        values = {"id": made, "database": database, "name": name, "body": Jsonb(dict(body)), "by": by}
        try:
            with self._conn.transaction():
                self._conn.execute(query, values)
        except errors.UniqueViolation as clash:
            raise self._taken(database, name) from clash
        except errors.ForeignKeyViolation as missing:
            raise DatabaseNotExist(database) from missing
        return made

    def lock(self, database: str, name: str) -> NamedRow | None:
        """The one of that name, held against other changes until the transaction ends."""
        self._conn.execute(f"SELECT 1 FROM {self._table} WHERE database = %s AND name = %s FOR UPDATE", (database, name))  # noqa: S608
        return self.find(database, name)

    def replace(self, id_: UUID, body: Mapping[str, Any], *, by: str | None) -> None:
        """Give it another body."""
        query = f"UPDATE {self._table} SET body = %s, updated_at = now(), updated_by = coalesce(%s, updated_by) WHERE {self._key} = %s"  # noqa: S608
        self._conn.execute(query, (Jsonb(dict(body)), by, id_))

    def rename(self, id_: UUID, database: str, name: str) -> None:
        """Give it another name; raises what says that the name is taken, or `DatabaseNotExist`."""
        query = f"UPDATE {self._table} SET database = %s, name = %s, updated_at = now() WHERE {self._key} = %s"  # noqa: S608
        try:
            with self._conn.transaction():
                self._conn.execute(query, (database, name, id_))
        except errors.UniqueViolation as clash:
            raise self._taken(database, name) from clash
        except errors.ForeignKeyViolation as missing:
            raise DatabaseNotExist(database) from missing

    def drop(self, database: str, name: str) -> bool:
        """Remove it; False when there was none."""
        return self._conn.execute(f"DELETE FROM {self._table} WHERE database = %s AND name = %s", (database, name)).rowcount == 1  # noqa: S608

    def _taken(self, database: str, name: str) -> ResourceError:
        return self._exists(f"{database}.{name}")  # type: ignore[call-arg] # such classes take the name alone
