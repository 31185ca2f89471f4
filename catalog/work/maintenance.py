"""Which server maintains which table, and what compactions did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from catalog.connection import CatalogConnection
from catalog.records import CompactionRunRow, PresentTable, SettledTable, TableRunRow, WatchedTable

LEASE_SECONDS = 15.0
"""A server that has not renewed for so long has lost its tables."""
_RUNS_KEPT = 1000
_FIRST = UUID(int=0)
UNSETTLED: LiteralString = """
    (m.table_id IS NULL OR m.snapshot_uuid IS DISTINCT FROM p.snapshot_uuid OR m.schema_id <> t.schema_id OR m.due_at <= now())
"""
"""Whether something may be to do, of a table ``t`` with a pointer ``p`` and a mark ``m``."""
RUNNING = "running"
"""The outcome of a run that has not ended; its numbers are those so far, its files and bytes before those it will read."""


class LeaseRepository:
    """Who maintains which table, and what each was last looked at for; inside the caller's transaction, by Postgres's clock.

    A server has one lease (``maintenance_owner``) for all its tables (``maintenance_lease``): when it runs out, whoever sees that first
    removes it and its tables with it, so that the server itself learns it has lost them, and others can take them.
    """

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def due(self, branch: str, owner: UUID, *, most: int = 1000, after: UUID = _FIRST, also: Collection[UUID] = ()) -> list[WatchedTable]:
        """Tables that may want work and that nobody else maintains, those with most files first.

        Something was committed or the options were changed since nothing was left to do, or time makes something due. Of very many there
        are the ``most`` with most files, as many behind the id ``after``, so that each has its turn, and in any case those of the owner
        and those of ``also``.
        """
        query = f"""
            WITH due AS (
                SELECT p.table_id, t.database, t.name, p.snapshot_id, p.snapshot_uuid, t.schema_id, p.file_count, l.owner,
                       CASE WHEN m.due_at <= now() THEN m.due_at END AS overdue_since
                FROM snapshot_pointer p JOIN sluice_table t USING (table_id)
                LEFT JOIN maintenance_mark m USING (table_id) LEFT JOIN maintenance_lease l USING (table_id)
                WHERE p.branch = %(branch)s AND (l.owner IS NULL OR l.owner = %(owner)s) AND {UNSETTLED}
            ), chosen AS (
                (SELECT table_id FROM due ORDER BY file_count DESC, table_id LIMIT %(most)s)
                UNION (SELECT table_id FROM due WHERE table_id > %(after)s ORDER BY table_id LIMIT %(most)s)
                UNION SELECT table_id FROM due WHERE owner IS NOT NULL OR table_id = ANY(%(also)s)
            )
            SELECT table_id, database, name, snapshot_id, snapshot_uuid, schema_id, overdue_since
            FROM due JOIN chosen USING (table_id) ORDER BY file_count DESC, table_id
        """  # noqa: S608 - a literal of this module
        values = {"branch": branch, "owner": owner, "most": most, "after": after, "also": list(also)}
        with self._conn.cursor(row_factory=class_row(WatchedTable)) as cur:
            return cur.execute(query, values).fetchall()

    def settle(self, tables: Sequence[SettledTable]) -> None:
        """Note that nothing is to be done of these tables, as of a snapshot and a schema, for so long."""
        query = """
            INSERT INTO maintenance_mark (table_id, snapshot_uuid, schema_id, due_at)
            SELECT u.table_id, u.snapshot_uuid, u.schema_id, now() + make_interval(secs => u.seconds)
            FROM unnest(%s::uuid[], %s::text[], %s::bigint[], %s::float8[]) AS u (table_id, snapshot_uuid, schema_id, seconds)
            JOIN sluice_table t ON t.table_id = u.table_id ORDER BY u.table_id
            FOR KEY SHARE OF t
            ON CONFLICT (table_id) DO UPDATE
                SET snapshot_uuid = excluded.snapshot_uuid, schema_id = excluded.schema_id, due_at = excluded.due_at
        """
        columns = zip(*((table.table_id, table.snapshot_uuid, table.schema_id, table.seconds) for table in tables), strict=True)
        self._conn.execute(query, [list(column) for column in columns])

    def present(self, tables: Collection[UUID], branch: str, owner: UUID) -> list[PresentTable]:
        """Those of the tables that are there."""
        query = """
            SELECT t.table_id, t.database, t.name, l.owner IS NOT NULL AND l.owner <> %s AS taken,
                   CASE WHEN m.schema_id = t.schema_id AND m.snapshot_uuid = p.snapshot_uuid THEN m.snapshot_uuid END AS settled
            FROM sluice_table t LEFT JOIN snapshot_pointer p ON p.table_id = t.table_id AND p.branch = %s
            LEFT JOIN maintenance_mark m ON m.table_id = t.table_id LEFT JOIN maintenance_lease l ON l.table_id = t.table_id
            WHERE t.table_id = ANY(%s)
        """
        with self._conn.cursor(row_factory=class_row(PresentTable)) as cur:
            return cur.execute(query, (owner, branch, list(tables))).fetchall()

    def take(self, tables: Sequence[UUID], owner: UUID) -> list[UUID]:
        """Become the one who maintains tables; returns which: not those of others, those dropped, nor any without a lease (`renew`).

        One whose row another transaction holds is left for the next time, so that it does not keep the others waiting.
        """
        query = """
            INSERT INTO maintenance_lease AS l (table_id, owner)
            SELECT t.table_id, o.owner FROM sluice_table t, maintenance_owner o
            WHERE t.table_id = ANY(%s) AND o.owner = %s AND o.lease_until > now()
            ORDER BY t.table_id
            FOR KEY SHARE SKIP LOCKED
            ON CONFLICT (table_id) DO UPDATE SET owner = excluded.owner WHERE l.owner = excluded.owner
            RETURNING table_id
        """
        return [table_id for (table_id,) in self._conn.execute(query, (list(tables), owner))]

    def give_up(self, tables: Collection[UUID], owner: UUID) -> None:
        """Leave tables to whoever takes them next."""
        self._conn.execute("DELETE FROM maintenance_lease WHERE owner = %s AND table_id = ANY(%s)", (owner, list(tables)))

    def renew(self, owner: UUID, server: str, seconds: float = LEASE_SECONDS) -> bool:
        """Hold on to all of an owner's tables; False where it has lost them, and begins anew. Leases that ran out go."""
        over = """
            DELETE FROM maintenance_owner WHERE owner IN (
                SELECT owner FROM maintenance_owner WHERE lease_until <= now() FOR UPDATE SKIP LOCKED)
        """  # one that another transaction holds, perhaps of a server that stands still, goes the next time
        self._conn.later(over)
        query = "UPDATE maintenance_owner SET lease_until = now() + make_interval(secs => %s) WHERE owner = %s"
        if self._conn.execute(query, (seconds, owner)).rowcount == 1:
            return True
        query = """
            INSERT INTO maintenance_owner (owner, server, lease_until) VALUES (%s, %s, now() + make_interval(secs => %s))
            ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until
        """  # it may be there by now: an attempt whose answer got lost, repeated
        self._conn.execute(query, (owner, server, seconds))
        return False

    def held(self, owner: UUID) -> list[UUID]:
        """An owner's tables."""
        return [table_id for (table_id,) in self._conn.execute("SELECT table_id FROM maintenance_lease WHERE owner = %s", (owner,))]

    def release(self, owner: UUID) -> None:
        """Give all of an owner's tables up."""
        self._conn.execute("DELETE FROM maintenance_owner WHERE owner = %s", (owner,))


class CompactionRunRepository:
    """Reads and writes ``compaction_run`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def add(self, table_id: UUID, run: CompactionRunRow) -> int | None:
        """Note a run and return its number; of each table the newest thousand stay. A table dropped meanwhile has none."""
        query = """
            INSERT INTO compaction_run (table_id, started_at, ended_at, reason, outcome, message, snapshot_id, tasks, files_before,
                                        files_after, bytes_before, bytes_after, row_count, server)
            SELECT table_id, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s FROM sluice_table WHERE table_id = %s
            FOR KEY SHARE RETURNING run_id
        """
        row = self._conn.execute(query, (*_values(run), table_id)).fetchone()
        if row is not None and row[0] % 100 == 0:
            old = """
                DELETE FROM compaction_run WHERE table_id = %s AND run_id <= (
                    SELECT run_id FROM compaction_run WHERE table_id = %s ORDER BY run_id DESC OFFSET %s LIMIT 1)
            """
            self._conn.execute(old, (table_id, table_id, _RUNS_KEPT))
        return None if row is None else int(row[0])

    def change(self, run_id: int, run: CompactionRunRow) -> None:
        """Bring a run's note up to date."""
        query = """
            UPDATE compaction_run SET (started_at, ended_at, reason, outcome, message, snapshot_id, tasks, files_before, files_after,
                                       bytes_before, bytes_after, row_count, server)
                = (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            WHERE run_id = %s
        """
        self._conn.execute(query, (*_values(run), run_id))

    def remove(self, run_id: int) -> None:
        """Forget a run that came to nothing."""
        self._conn.execute("DELETE FROM compaction_run WHERE run_id = %s", (run_id,))

    def interrupt(self, tables: Sequence[UUID]) -> None:
        """Close the notes of runs whose server did not: whoever takes the tables' leases knows that none is running."""
        query = "UPDATE compaction_run SET outcome = 'interrupted' WHERE table_id = ANY(%s) AND outcome = %s"
        self._conn.execute(query, (list(tables), RUNNING))

    def newest(self, limit: int) -> list[TableRunRow]:
        """The newest runs of all tables; those that have not ended come first."""
        query = """
            SELECT t.database, t.name, r.started_at, r.ended_at, r.reason, r.outcome, r.message, r.snapshot_id, r.tasks, r.files_before,
                   r.files_after, r.bytes_before, r.bytes_after, r.row_count, r.server
            FROM compaction_run r JOIN sluice_table t USING (table_id)
            ORDER BY (r.outcome = %s) DESC, r.run_id DESC LIMIT %s
        """
        with self._conn.cursor(row_factory=class_row(TableRunRow)) as cur:
            return cur.execute(query, (RUNNING, limit)).fetchall()

    def of(self, table_id: UUID) -> Sequence[CompactionRunRow]:
        """A table's runs, newest first."""
        query = """
            SELECT started_at, ended_at, reason, outcome, message, snapshot_id, tasks, files_before, files_after, bytes_before,
                   bytes_after, row_count, server
            FROM compaction_run WHERE table_id = %s ORDER BY run_id DESC
        """
        with self._conn.cursor(row_factory=class_row(CompactionRunRow)) as cur:
            return cur.execute(query, (table_id,)).fetchall()


def _values(run: CompactionRunRow) -> tuple[object, ...]:
    return (
        run.started_at, run.ended_at, run.reason, run.outcome, run.message, run.snapshot_id, run.tasks, run.files_before,
        run.files_after, run.bytes_before, run.bytes_after, run.row_count, run.server,
    )  # fmt: skip
