"""Snapshots and the pointers that decide which is the latest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.records import SnapshotRow
from model.errors import CommitConflict

_COLUMNS = "s.snapshot_id, s.snapshot_uuid, s.body, s.published"


class SnapshotRepository:
    """Reads and writes ``snapshot_pointer`` and ``table_snapshot`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def latest(self, table_id: UUID, branch: str) -> SnapshotRow | None:
        """The snapshot the branch points at, or None for a table without any."""
        query = f"""
            SELECT {_COLUMNS} FROM snapshot_pointer p
            JOIN table_snapshot s ON s.table_id = p.table_id AND s.branch = p.branch AND s.snapshot_id = p.snapshot_id
            WHERE p.table_id = %s AND p.branch = %s
        """  # noqa: S608 - the columns are a literal of this module
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch)).fetchone()

    def get(self, table_id: UUID, branch: str, snapshot_id: int) -> SnapshotRow | None:
        """One snapshot, or None."""
        query = f"SELECT {_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND branch = %s AND snapshot_id = %s"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch, snapshot_id)).fetchone()

    def by_uuid(self, table_id: UUID, snapshot_uuid: str) -> SnapshotRow | None:
        """The snapshot of that uuid, or None: how the outcome of a lost answer is found out."""
        query = f"SELECT {_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND snapshot_uuid = %s"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, snapshot_uuid)).fetchone()

    def by_commit(self, table_id: UUID, branch: str, *, user: str, identifier: int, kind: str) -> SnapshotRow | None:
        """The snapshot of a streaming writer's commit, or None; never asked for the batch identifier."""
        query = f"""
            SELECT {_COLUMNS} FROM table_snapshot s
            WHERE table_id = %(table)s AND branch = %(branch)s
              AND body @> jsonb_build_object('commitUser', %(user)s::text, 'commitIdentifier', %(id)s::bigint, 'commitKind', %(kind)s::text)
            ORDER BY snapshot_id DESC LIMIT 1
        """  # noqa: S608
        values = {"table": table_id, "branch": branch, "user": user, "id": identifier, "kind": kind}
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, values).fetchone()

    def history(self, table_id: UUID, branch: str, *, first: int | None = None) -> list[SnapshotRow]:
        """All snapshots, oldest first, or the oldest few."""
        query = f"SELECT {_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND branch = %s ORDER BY snapshot_id LIMIT %s"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch, first)).fetchall()

    def advance(self, table_id: UUID, branch: str, *, base: str | None, snapshot_id: int, uuid: str, body: Mapping[str, Any]) -> None:
        """Point at the new snapshot if the branch still points at ``base``; raise `CommitConflict` otherwise.

        One guarded statement: its row count is the verdict. A table without snapshots has no pointer row yet.
        """
        if base is None:
            query = """
                INSERT INTO snapshot_pointer (table_id, branch, snapshot_id, snapshot_uuid)
                VALUES (%(table)s, %(branch)s, %(id)s, %(uuid)s) ON CONFLICT DO NOTHING
            """
        else:
            query = """
                UPDATE snapshot_pointer SET snapshot_id = %(id)s, snapshot_uuid = %(uuid)s
                WHERE table_id = %(table)s AND branch = %(branch)s AND snapshot_uuid = %(base)s
            """
        values = {"table": table_id, "branch": branch, "id": snapshot_id, "uuid": uuid, "base": base}
        if self._conn.execute(query, values).rowcount == 0:
            raise CommitConflict(str(table_id), expected=base)
        self.insert(table_id, branch, snapshot_id=snapshot_id, uuid=uuid, body=body, published=False)

    def insert(self, table_id: UUID, branch: str, *, snapshot_id: int, uuid: str, body: Mapping[str, Any], published: bool) -> None:
        """Add a snapshot's row."""
        query = """
            INSERT INTO table_snapshot (table_id, branch, snapshot_id, snapshot_uuid, body, published)
            VALUES (%s, %s, %s, %s, %s, %s)
        """
        self._conn.execute(query, (table_id, branch, snapshot_id, uuid, Jsonb(dict(body)), published))

    def published(self, table_id: UUID, branch: str, snapshot_id: int, *, location: str) -> bool:
        """Note that the snapshot's file exists; False when the table does not lie at ``location`` any more."""
        query = """
            UPDATE table_snapshot s SET published = true FROM sluice_table t
            WHERE s.table_id = %s AND s.branch = %s AND s.snapshot_id = %s
              AND t.table_id = s.table_id AND t.location = %s AND t.moving_from IS NULL
        """
        return self._conn.execute(query, (table_id, branch, snapshot_id, location)).rowcount == 1

    def unpublished(self, table_id: UUID, branch: str) -> list[SnapshotRow]:
        """Decided snapshots whose files may not exist yet, oldest first."""
        query = f"""
            SELECT {_COLUMNS} FROM table_snapshot s
            WHERE table_id = %s AND branch = %s AND NOT published ORDER BY snapshot_id
        """  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch)).fetchall()

    def earliest_id(self, table_id: UUID, branch: str) -> int | None:
        """The oldest snapshot's id, or None for a table without any."""
        query = "SELECT min(snapshot_id) FROM table_snapshot WHERE table_id = %s AND branch = %s"
        row = self._conn.execute(query, (table_id, branch)).fetchone()
        return None if row is None else row[0]

    def remove(self, table_id: UUID, branch: str, snapshot_ids: Sequence[int]) -> None:
        """Forget expired snapshots; never the one the branch points at."""
        query = "DELETE FROM table_snapshot WHERE table_id = %s AND branch = %s AND snapshot_id = ANY(%s)"
        self._conn.execute(query, (table_id, branch, list(snapshot_ids)))

    def unpublish_after(self, table_id: UUID, branch: str, snapshot_id: int) -> None:
        """Note that the files of later snapshots may be gone: whoever needs one puts it back."""
        query = "UPDATE table_snapshot SET published = false WHERE table_id = %s AND branch = %s AND snapshot_id > %s"
        self._conn.execute(query, (table_id, branch, snapshot_id))

    def roll_back(self, table_id: UUID, branch: str, snapshot_id: int, *, uuid: str, body: Mapping[str, Any]) -> None:
        """Point at an earlier snapshot and forget the later ones; one only a tag has kept comes back."""
        self._conn.execute(
            "DELETE FROM table_snapshot WHERE table_id = %s AND branch = %s AND snapshot_id > %s", (table_id, branch, snapshot_id)
        )
        if self.get(table_id, branch, snapshot_id) is None:
            self.insert(table_id, branch, snapshot_id=snapshot_id, uuid=uuid, body=body, published=True)
        self._conn.execute(
            "UPDATE snapshot_pointer SET snapshot_id = %s, snapshot_uuid = %s WHERE table_id = %s AND branch = %s",
            (snapshot_id, uuid, table_id, branch),
        )

    def branches(self, table_id: UUID) -> list[str]:
        """The branches that have snapshots, by name."""
        query = "SELECT branch FROM snapshot_pointer WHERE table_id = %s ORDER BY branch"
        return [name for (name,) in self._conn.execute(query, (table_id,))]

    def tables_with_unpublished(self) -> list[UUID]:
        """Tables a crash may have left behind its pointer."""
        return [row[0] for row in self._conn.execute("SELECT DISTINCT table_id FROM table_snapshot WHERE NOT published").fetchall()]


class TagRepository:
    """Reads and writes ``table_tag`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def get(self, table_id: UUID, name: str) -> Mapping[str, Any] | None:
        """The tagged snapshot's JSON, or None."""
        row = self._conn.execute("SELECT snapshot FROM table_tag WHERE table_id = %s AND name = %s", (table_id, name)).fetchone()
        return None if row is None else dict(row[0])

    def names(self, table_id: UUID) -> list[str]:
        """All tags of a table, by name."""
        return [name for (name,) in self._conn.execute("SELECT name FROM table_tag WHERE table_id = %s ORDER BY name", (table_id,))]

    def all(self, table_id: UUID) -> list[tuple[str, Mapping[str, Any]]]:
        """All tags of a table with their snapshots' JSON, by name."""
        query = "SELECT name, snapshot FROM table_tag WHERE table_id = %s ORDER BY name"
        return [(name, dict(body)) for name, body in self._conn.execute(query, (table_id,))]

    def put(self, table_id: UUID, name: str, snapshot: Mapping[str, Any]) -> bool:
        """Add it; False when the name is taken."""
        query = "INSERT INTO table_tag (table_id, name, snapshot) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        return self._conn.execute(query, (table_id, name, Jsonb(dict(snapshot)))).rowcount == 1

    def drop(self, table_id: UUID, name: str) -> bool:
        """Remove it; False when there was none."""
        return self._conn.execute("DELETE FROM table_tag WHERE table_id = %s AND name = %s", (table_id, name)).rowcount == 1
