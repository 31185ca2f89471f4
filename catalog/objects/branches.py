"""Branches of tables besides main, and files left to be removed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from psycopg import errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.connection import CatalogConnection
from catalog.objects.snapshots import IN_ORDER
from catalog.objects.tables import HOLD, KEEP_TOP_SCHEMA
from catalog.records import StaleFileRow
from model.catalog_errors import BranchAlreadyExist

_MOVED_ALONG = (
    "table_schema", "table_snapshot", "snapshot_pointer", "table_tag", "table_partition", "expired_snapshot", "stream_consumer",
)  # fmt: skip
"""Tables whose rows belong to a branch."""
_HEARD_TIMES = 10
"""So often Postgres hears of work in the store within the time that a transaction may be silent."""


class BranchRepository:
    """Reads and writes ``table_branch`` and the branch's rows elsewhere, inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def names(self, table_id: UUID) -> list[str]:
        """All branches but main, in code-point order."""
        return [name for (name,) in self._conn.execute("SELECT name FROM table_branch WHERE table_id = %s ORDER BY name", (table_id,))]

    def create(self, table_id: UUID, name: str, *, schema_id: int, table: str) -> None:
        """Add it; its schemas and snapshots are the caller's to add. Raises `BranchAlreadyExist`."""
        query = "INSERT INTO table_branch (table_id, name, schema_id) VALUES (%s, %s, %s)"
        try:
            with self._conn.transaction():
                self._conn.execute(query, (table_id, name, schema_id))
        except errors.UniqueViolation as clash:
            raise BranchAlreadyExist(name, table) from clash
        self._clear(table_id, name)

    def drop(self, table_id: UUID, name: str) -> bool:
        """Remove it with all that is on it; False when there was none."""
        self._conn.execute(KEEP_TOP_SCHEMA, {"table": table_id})
        self._clear(table_id, name)
        return self._conn.execute("DELETE FROM table_branch WHERE table_id = %s AND name = %s", (table_id, name)).rowcount == 1

    def rename(self, table_id: UUID, name: str, to: str, *, table: str) -> bool:
        """Give it another name; False when there is none. Raises `BranchAlreadyExist`."""
        try:
            with self._conn.transaction():
                query = "UPDATE table_branch SET name = %s, published_schema_id = -1 WHERE table_id = %s AND name = %s"
                renamed = self._conn.execute(query, (to, table_id, name)).rowcount == 1
        except errors.UniqueViolation as clash:
            raise BranchAlreadyExist(to, table) from clash
        if not renamed:
            return False
        self._clear(table_id, to)
        self._conn.later(IN_ORDER, {"table": table_id, "branch": name, "above": 0})
        for moved in _MOVED_ALONG:
            self._conn.execute(f"UPDATE {moved} SET branch = %s WHERE table_id = %s AND branch = %s", (to, table_id, name))  # noqa: S608
        # Their files are written under the new name by whoever needs them first.
        self._conn.execute("UPDATE table_snapshot SET published = false WHERE table_id = %s AND branch = %s", (table_id, to))
        self._conn.execute("UPDATE table_tag SET published = false WHERE table_id = %s AND branch = %s", (table_id, to))
        return True

    def _clear(self, table_id: UUID, name: str) -> None:
        """Remove all that is on a branch; earlier versions let a commit land on one that was being dropped, which must not come back."""
        self._conn.later(IN_ORDER, {"table": table_id, "branch": name, "above": 0})
        for table in _MOVED_ALONG:
            self._conn.execute(f"DELETE FROM {table} WHERE table_id = %s AND branch = %s", (table_id, name))  # noqa: S608


class StaleFileRepository:
    """Reads and writes ``stale_file`` inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn
        self._heard = 0.0
        """When Postgres heard last that `lock` is held."""

    def add(self, table_id: UUID, path: str, mark: Mapping[str, Any]) -> None:
        """Remember a file to be removed."""
        query = """
            INSERT INTO stale_file (table_id, path, mark) VALUES (%s, %s, %s)
            ON CONFLICT (table_id, path) DO UPDATE SET mark = excluded.mark
        """
        self._conn.execute(query, (table_id, path, Jsonb(dict(mark))))

    def keep(self, table_id: UUID, path: str, mark: Mapping[str, Any]) -> None:
        """Let a file stay that was to be removed: what it holds is wanted again."""
        self._conn.execute("DELETE FROM stale_file WHERE table_id = %s AND path = %s AND mark = %s", (table_id, path, Jsonb(dict(mark))))

    def paths(self, table_id: UUID) -> set[str]:
        """The files of a table that are to be removed."""
        return {path for (path,) in self._conn.execute("SELECT path FROM stale_file WHERE table_id = %s", (table_id,))}

    def lock(self, table_id: UUID, *, most: int | None = None, wait: bool = True) -> list[StaleFileRow]:
        """The files of a table, or the first of them, for nobody else to remove, or to add to, until the transaction ends; commits go on.

        The table's row comes first, as it does for all who add files: two would wait for each other in a circle otherwise. Without ``wait``
        none where somebody else holds it.
        """
        row = self._conn.execute(HOLD if wait else f"{HOLD} SKIP LOCKED", (table_id,)).fetchone()
        self._heard = time.monotonic()
        if row is None and not wait:
            return []
        with self._conn.cursor(row_factory=class_row(StaleFileRow)) as cur:
            query = "SELECT path, mark FROM stale_file WHERE table_id = %s ORDER BY path LIMIT %s FOR UPDATE"
            return cur.execute(query, (table_id, most)).fetchall()

    def hold_on(self) -> None:
        """Keep what is locked while files are removed, said before each: Postgres ends a transaction that is silent for minutes.

        Whoever hangs lets go of it then. Raises what the connection raises where it has ended.
        """
        if (now := time.monotonic()) - self._heard > self._conn.silence_seconds() / _HEARD_TIMES:
            self._conn.execute("SELECT 1")
            self._heard = now

    def removed(self, table_id: UUID, paths: Collection[str]) -> None:
        """Let these be on record as gone, for a day: one may be written by whoever was held up since before it was taken away."""
        query = """
            WITH gone AS (DELETE FROM stale_file WHERE table_id = %(table)s AND path = ANY(%(paths)s) RETURNING table_id, path, mark),
                 old AS (DELETE FROM removed_file WHERE table_id = %(table)s AND removed_at < now() - interval '1 day')
            INSERT INTO removed_file (table_id, path, mark) SELECT table_id, path, mark FROM gone
            ON CONFLICT (table_id, path) DO UPDATE SET mark = excluded.mark, removed_at = excluded.removed_at
        """
        self._conn.execute(query, {"table": table_id, "paths": list(paths)})

    def mark_of_removed(self, table_id: UUID, path: str) -> Mapping[str, Any] | None:
        """By what the file that was removed there last is told from others; None where none was within a day."""
        query = "SELECT mark FROM removed_file WHERE table_id = %s AND path = %s AND removed_at > now() - interval '1 day'"
        row = self._conn.execute(query, (table_id, path)).fetchone()
        return None if row is None else row[0]
