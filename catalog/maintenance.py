"""Which server looks after which table, and what compactions did."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from catalog.records import CompactionRunRow, TableRunRow, WatchedTable

LEASE_SECONDS = 15.0
"""A server that has not renewed for so long has lost its tables."""
_RUNS_KEPT = 1000
RUNNING = "running"
"""The outcome of a run that has not ended; its numbers are those so far, its files and bytes before those it will read."""


class LeaseRepository:
    """Reads and writes ``maintenance_lease`` inside the caller's transaction; the clock is Postgres's."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def watched(self, branch: str) -> list[WatchedTable]:
        """Every table with snapshots: where its branch points, and who looks after it."""
        query = """
            SELECT p.table_id, t.database, t.name, p.snapshot_id, p.snapshot_uuid,
                   CASE WHEN l.lease_until > now() THEN l.owner END AS owner
            FROM snapshot_pointer p JOIN sluice_table t USING (table_id) LEFT JOIN maintenance_lease l USING (table_id)
            WHERE p.branch = %s
        """
        with self._conn.cursor(row_factory=class_row(WatchedTable)) as cur:
            return cur.execute(query, (branch,)).fetchall()

    def take(self, table_id: UUID, owner: UUID, server: str, seconds: float = LEASE_SECONDS) -> bool:
        """Become the one who looks after a table; False while another is, or where it has been dropped."""
        query = """
            INSERT INTO maintenance_lease (table_id, owner, server, lease_until)
            SELECT table_id, %(owner)s, %(server)s, now() + make_interval(secs => %(seconds)s) FROM sluice_table WHERE table_id = %(table)s
            FOR KEY SHARE
            ON CONFLICT (table_id) DO UPDATE
                SET owner = excluded.owner, server = excluded.server, lease_until = excluded.lease_until
                WHERE maintenance_lease.lease_until <= now() OR maintenance_lease.owner = excluded.owner
        """
        values = {"table": table_id, "owner": owner, "server": server, "seconds": seconds}
        return self._conn.execute(query, values).rowcount == 1

    def renew(self, owner: UUID, seconds: float = LEASE_SECONDS) -> set[UUID]:
        """Hold on to all of an owner's tables; returns those it still has."""
        query = """
            UPDATE maintenance_lease SET lease_until = now() + make_interval(secs => %s)
            WHERE owner = %s AND lease_until > now() RETURNING table_id
        """
        return {table_id for (table_id,) in self._conn.execute(query, (seconds, owner))}

    def release(self, owner: UUID) -> None:
        """Give all of an owner's tables up."""
        self._conn.execute("DELETE FROM maintenance_lease WHERE owner = %s", (owner,))


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

    def interrupt(self, table_id: UUID) -> None:
        """Close the notes of runs whose server did not: whoever has the table's lease knows that none is running."""
        self._conn.execute("UPDATE compaction_run SET outcome = 'interrupted' WHERE table_id = %s AND outcome = %s", (table_id, RUNNING))

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
