"""Which of the decided snapshots have their files in place, and which are still decided once they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from catalog.connection import CatalogConnection
from catalog.objects.snapshots import SNAPSHOT_COLUMNS
from catalog.records import SnapshotRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A snapshot whose file is there."""

    table_id: UUID
    branch: str
    snapshot_id: int
    key: str


class PublicationRepository:
    """Reads and notes what is published inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def note(self, notes: Sequence[Note]) -> list[Note]:
        """Note that snapshots' files are there, and wake whoever waits for one of the branches; returns those that are no more.

        Not waited for on Postgres's disk: a note that a crash loses makes the file be looked for again, no more.
        """
        query = """
            WITH told AS (
                SELECT * FROM unnest(%s::uuid[], %s::text[], %s::bigint[], %s::text[]) AS n (table_id, branch, snapshot_id, snapshot_uuid)
            ), held AS (
                SELECT s.table_id, s.branch, s.snapshot_id FROM table_snapshot s JOIN told n USING (table_id, branch, snapshot_id)
                WHERE s.snapshot_uuid = n.snapshot_uuid AND NOT s.published
                ORDER BY s.table_id, s.branch, s.snapshot_id FOR NO KEY UPDATE OF s
            ), noted AS (
                UPDATE table_snapshot s SET published = true FROM held n
                WHERE s.table_id = n.table_id AND s.branch = n.branch AND s.snapshot_id = n.snapshot_id
            ), woken AS (
                SELECT pg_notify('sluice_snapshot', n.table_id || ' ' || n.branch)
                FROM (SELECT DISTINCT table_id, branch FROM told) n, (SELECT set_config('synchronous_commit', 'off', true)) AS unhurried
            )
            SELECT n.table_id, n.branch, n.snapshot_id, n.snapshot_uuid
            FROM (SELECT count(*) FROM woken) w LEFT JOIN told n ON NOT EXISTS (
                SELECT 1 FROM table_snapshot s
                WHERE s.table_id = n.table_id AND s.branch = n.branch
                  AND s.snapshot_id = n.snapshot_id AND s.snapshot_uuid = n.snapshot_uuid
            )
        """
        ordered = sorted(notes, key=lambda note: (note.table_id, note.branch, note.snapshot_id))  # two servers' do not block each other
        columns = ([n.table_id for n in ordered], [n.branch for n in ordered], [n.snapshot_id for n in ordered], [n.key for n in ordered])
        gone = self._conn.execute(query, columns).fetchall()  # a row of NULL where there is none: the waking is done in any case
        return [Note(table_id=one[0], branch=one[1], snapshot_id=one[2], key=one[3]) for one in gone if one[0] is not None]

    def newest_published(self, branches: Sequence[tuple[UUID, str]]) -> dict[tuple[UUID, str], int]:
        """The newest snapshots whose files are known to be there; none for a branch without any."""
        query = """
            SELECT n.table_id, n.branch, s.snapshot_id FROM unnest(%s::uuid[], %s::text[]) AS n (table_id, branch)
            CROSS JOIN LATERAL (
                SELECT snapshot_id FROM table_snapshot s
                WHERE s.table_id = n.table_id AND s.branch = n.branch AND s.published ORDER BY snapshot_id DESC LIMIT 1
            ) s
        """
        rows = self._conn.execute(query, ([table for table, _ in branches], [branch for _, branch in branches]))
        return {(table, branch): snapshot_id for table, branch, snapshot_id in rows}

    def decided(self, table_id: UUID, branch: str, snapshot_id: int, *, location: str) -> SnapshotRow | None:
        """The snapshot of that id where the table lies at this location; None where there is none of that id (any more)."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s JOIN sluice_table t ON t.table_id = s.table_id
            WHERE s.table_id = %s AND s.branch = %s AND s.snapshot_id = %s AND t.location = %s AND t.moving_from IS NULL
        """  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch, snapshot_id, location)).fetchone()

    def unpublished(self, table_id: UUID, branch: str, *, location: str) -> list[SnapshotRow]:
        """Decided snapshots whose files may not exist yet, oldest first; none where the table does not lie there (any more)."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s JOIN sluice_table t ON t.table_id = s.table_id
            WHERE s.table_id = %s AND s.branch = %s AND NOT s.published AND t.location = %s AND t.moving_from IS NULL
            ORDER BY s.snapshot_id
        """  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch, location)).fetchall()

    def lost(self, table_id: UUID, branch: str, keys: Sequence[str]) -> None:
        """Note that the files of snapshots that were published are to be written again."""
        query = "UPDATE table_snapshot SET published = false WHERE table_id = %s AND branch = %s AND snapshot_uuid = ANY(%s)"
        self._conn.execute(query, (table_id, branch, list(keys)))

    def tables_with_unpublished(self) -> list[tuple[UUID, str]]:
        """Tables and branches a crash may have left behind their pointers."""
        query = "SELECT DISTINCT s.table_id, s.branch FROM table_snapshot s JOIN sluice_table t USING (table_id) WHERE NOT s.published"
        return [(table_id, branch) for table_id, branch in self._conn.execute(query).fetchall()]
