"""How far named readers of streams have come."""

from __future__ import annotations

from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from catalog.records import ConsumerRow


class ConsumerRepository:
    """Reads and writes ``stream_consumer`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def take(self, table_id: UUID, branch: str, name: str, *, owner: UUID) -> ConsumerRow:
        """Make a stream the only one that may tell this consumer's progress; returns how far the consumer is."""
        query = """
            INSERT INTO stream_consumer AS c (table_id, branch, name, owner) VALUES (%s, %s, %s, %s)
            ON CONFLICT (table_id, branch, name) DO UPDATE SET owner = excluded.owner
            RETURNING c.next_snapshot, c.written
        """
        with self._conn.cursor(row_factory=class_row(ConsumerRow)) as cur:
            row = cur.execute(query, (table_id, branch, name, owner)).fetchone()
        assert row is not None
        return row

    def advance(self, table_id: UUID, branch: str, name: str, *, owner: UUID, next_snapshot: int) -> bool:
        """Note progress; False where another stream has taken the consumer over, or the table is gone."""
        query = """
            UPDATE stream_consumer SET next_snapshot = %s, updated_at = now()
            WHERE table_id = %s AND branch = %s AND name = %s AND owner = %s
        """
        return self._conn.execute(query, (next_snapshot, table_id, branch, name, owner)).rowcount == 1

    def written(self, table_id: UUID, branch: str, name: str, *, owner: UUID, next_snapshot: int) -> None:
        """Note what the consumer's file holds now."""
        query = "UPDATE stream_consumer SET written = %s WHERE table_id = %s AND branch = %s AND name = %s AND owner = %s"
        self._conn.execute(query, (next_snapshot, table_id, branch, name, owner))

    def reset(self, table_id: UUID, branch: str, name: str, next_snapshot: int | None) -> None:
        """Set a consumer's progress, whoever reads under its name; None forgets it."""
        if next_snapshot is None:
            self._conn.execute("DELETE FROM stream_consumer WHERE table_id = %s AND branch = %s AND name = %s", (table_id, branch, name))
            return
        query = """
            INSERT INTO stream_consumer AS c (table_id, branch, name, owner, next_snapshot, written)
            VALUES (%(table)s, %(branch)s, %(name)s, gen_random_uuid(), %(next)s, %(next)s)
            ON CONFLICT (table_id, branch, name) DO UPDATE
              SET owner = excluded.owner, next_snapshot = excluded.next_snapshot, written = excluded.written, updated_at = now()
        """
        self._conn.execute(query, {"table": table_id, "branch": branch, "name": name, "next": next_snapshot})
