"""Tags: snapshots kept under names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.records import TagRow
from model.identifier import MAIN_BRANCH

_SELECT = "SELECT name, snapshot, created_millis, retained, published FROM table_tag WHERE table_id = %s AND branch = %s"


class TagRepository:
    """Reads and writes ``table_tag`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def find(self, table_id: UUID, name: str, branch: str = MAIN_BRANCH) -> TagRow | None:
        """The tag, or None."""
        with self._conn.cursor(row_factory=class_row(TagRow)) as cur:
            return cur.execute(f"{_SELECT} AND name = %s", (table_id, branch, name)).fetchone()

    def all(self, table_id: UUID, branch: str = MAIN_BRANCH) -> list[TagRow]:
        """All tags of a table or branch, by name."""
        with self._conn.cursor(row_factory=class_row(TagRow)) as cur:
            return cur.execute(f"{_SELECT} ORDER BY name", (table_id, branch)).fetchall()

    def tables_with_unpublished(self) -> list[tuple[UUID, str]]:
        """Tables and branches with a tag whose file may not be there yet."""
        query = "SELECT DISTINCT g.table_id, g.branch FROM table_tag g JOIN sluice_table t USING (table_id) WHERE NOT g.published"
        return [(table_id, branch) for table_id, branch in self._conn.execute(query).fetchall()]

    def branched(self, table_id: UUID, branch: str) -> set[str]:
        """The names of a branch's tags whose snapshot is one of another branch besides main, which was made of it."""
        query = """
            SELECT g.name FROM table_tag g WHERE g.table_id = %s AND g.branch = %s AND EXISTS (
                SELECT 1 FROM table_snapshot s
                WHERE s.table_id = g.table_id AND s.branch NOT IN (g.branch, 'main') AND s.snapshot_id = (g.snapshot ->> 'id')::bigint
                  AND s.body ->> 'deltaManifestList' = g.snapshot ->> 'deltaManifestList'
            )
        """
        return {name for (name,) in self._conn.execute(query, (table_id, branch))}

    def lists(self, table_id: UUID) -> list[str]:
        """The manifest lists that tags of a table hold, on all branches."""
        query = """
            SELECT list.name FROM table_tag t,
                   unnest(ARRAY[snapshot ->> 'baseManifestList', snapshot ->> 'deltaManifestList', snapshot ->> 'changelogManifestList'])
                   AS list (name)
            WHERE t.table_id = %s AND list.name IS NOT NULL
        """
        return [name for (name,) in self._conn.execute(query, (table_id,))]

    def put(  # noqa: PLR0913 - the columns of a row
        self,
        table_id: UUID,
        name: str,
        snapshot: Mapping[str, Any],
        branch: str = MAIN_BRANCH,
        *,
        created_millis: int | None = None,
        retained: str | None = None,
        published: bool = False,
    ) -> bool:
        """Add it; False when the name is taken."""
        query = """
            INSERT INTO table_tag (table_id, branch, name, snapshot, created_millis, retained, published)
            VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
        """
        values = (table_id, branch, name, Jsonb(dict(snapshot)), created_millis, retained, published)
        return self._conn.execute(query, values).rowcount == 1

    def published(self, table_id: UUID, name: str, branch: str = MAIN_BRANCH, *, published: bool = True) -> None:
        """Note that the tag's file exists: from now on its absence means that a client removed it; or that it is to be written."""
        query = "UPDATE table_tag SET published = %s WHERE table_id = %s AND branch = %s AND name = %s"
        self._conn.execute(query, (published, table_id, branch, name))

    def told_otherwise(self, table_id: UUID, branch: str, words: Sequence[str]) -> list[TagRow]:
        """Tags of snapshots whose operation is none of these words."""
        with self._conn.cursor(row_factory=class_row(TagRow)) as cur:
            return cur.execute(f"{_SELECT} AND snapshot ->> 'operation' <> ALL(%s)", (table_id, branch, list(words))).fetchall()

    def tell(self, table_id: UUID, branch: str, name: str, snapshot: Mapping[str, Any]) -> None:
        """Spell a tag's snapshot in another way."""
        query = "UPDATE table_tag SET snapshot = %s WHERE table_id = %s AND branch = %s AND name = %s"
        self._conn.execute(query, (Jsonb(dict(snapshot)), table_id, branch, name))

    def drop(self, table_id: UUID, name: str, branch: str = MAIN_BRANCH) -> bool:
        """Remove it; False when there was none."""
        query = "DELETE FROM table_tag WHERE table_id = %s AND branch = %s AND name = %s"
        return self._conn.execute(query, (table_id, branch, name)).rowcount == 1
