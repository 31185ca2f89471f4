"""How far named readers of streams have come."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from catalog.records import ConsumerRow


class ConsumerRepository:
    """Reads and writes ``stream_consumer`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def lock(self, table_id: UUID, branch: str, name: str) -> None:
        """Wait until no other transaction changes this consumer, its file included, and let none until this one ends."""
        self._conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"consumer {table_id} {branch} {name}",))

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
        """Note progress, which the file holds too when the transaction ends; False where another stream took over, or the table is gone."""
        query = """
            UPDATE stream_consumer SET next_snapshot = %(next)s, written = %(next)s, updated_at = now()
            WHERE table_id = %(table)s AND branch = %(branch)s AND name = %(name)s AND owner = %(owner)s
        """
        sent = {"table": table_id, "branch": branch, "name": name, "owner": owner, "next": next_snapshot}
        return self._conn.execute(query, sent).rowcount == 1

    def owner(self, table_id: UUID, branch: str, name: str) -> UUID | None:
        """Which stream may tell a consumer's progress; None where there is no such consumer."""
        query = "SELECT owner FROM stream_consumer WHERE table_id = %s AND branch = %s AND name = %s"
        row = self._conn.execute(query, (table_id, branch, name)).fetchone()
        return None if row is None else row[0]

    def note(self, table_id: UUID, branch: str, name: str) -> None:
        """See to it that a consumer has a row, also one that only its file tells of."""
        query = """
            INSERT INTO stream_consumer (table_id, branch, name, owner) VALUES (%s, %s, %s, gen_random_uuid())
            ON CONFLICT (table_id, branch, name) DO NOTHING
        """
        self._conn.execute(query, (table_id, branch, name))

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

    def progress(self, table_id: UUID, branch: str) -> dict[str, ConsumerRow]:
        """How far the consumers of a branch are, by name."""
        query = "SELECT name, next_snapshot, written FROM stream_consumer WHERE table_id = %s AND branch = %s"
        rows = self._conn.execute(query, (table_id, branch)).fetchall()
        return {name: ConsumerRow(next_snapshot=following, written=written) for name, following, written in rows}

    def lower(self, table_id: UUID, branch: str, first: int, filed: Mapping[str, int]) -> None:
        """Let all that are beyond a snapshot go on there, and the streams that read under their names end.

        ``filed`` are those whose files say that they are beyond it. What the files hold is noted as written: from then on they are believed
        only where they say something else.
        """
        query = """
            INSERT INTO stream_consumer AS c (table_id, branch, name, owner, next_snapshot, written)
            SELECT %(table)s, %(branch)s, f.name, gen_random_uuid(), %(first)s, f.written
            FROM unnest(%(names)s::text[], %(written)s::bigint[]) AS f (name, written) ORDER BY f.name
            ON CONFLICT (table_id, branch, name) DO UPDATE
              SET owner = excluded.owner, next_snapshot = excluded.next_snapshot, written = excluded.written, updated_at = now()
        """
        sent = {"table": table_id, "branch": branch, "first": first, "names": list(filed), "written": list(filed.values())}
        self._conn.execute(query, sent)

    def filed(self, table_id: UUID, branch: str, name: str) -> None:
        """A consumer's file says what its row does."""
        query = "UPDATE stream_consumer SET written = next_snapshot WHERE table_id = %s AND branch = %s AND name = %s"
        self._conn.execute(query, (table_id, branch, name))
