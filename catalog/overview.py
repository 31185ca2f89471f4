"""The catalog as a whole, for its operators: what runs, what lags, what is stuck."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from catalog.objects.tables import TOP_SCHEMA
from catalog.records import ConsumerLagRow, OverviewRow, PointerRow, SmallFilesRow
from catalog.work.maintenance import UNSETTLED
from model.schema.schema import DIRECTORY_KINDS

_HOME = r"regexp_replace(location, '/[^/]+\.db/[^/]+$', '')"
"""The warehouse of a table in a database's directory; of others the location itself."""


class OverviewRepository:
    """Reads sums over many tables of the catalog; the clock is Postgres's."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def sums(self) -> OverviewRow:
        """How many there are of everything that may need attention."""
        query = f"""
            SELECT clock_timestamp() AS asked_at,
                   (SELECT count(*) FROM sluice_table) AS tables,
                   (SELECT count(*) FROM table_snapshot JOIN sluice_table USING (table_id) WHERE NOT published) AS unpublished_snapshots,
                   (SELECT count(*) FROM maintenance_lease JOIN maintenance_owner USING (owner) JOIN sluice_table USING (table_id)
                    WHERE lease_until <= now()) AS expired_table_leases,
                   (SELECT count(*) FROM stream_job WHERE lease_until <= now()) AS expired_job_leases,
                   ARRAY(SELECT ARRAY[database, name, diverged_at] FROM sluice_table WHERE diverged_at IS NOT NULL ORDER BY 1) AS diverged,
                   ARRAY(SELECT database || '.' || name FROM sluice_table t JOIN snapshot_pointer p USING (table_id)
                         LEFT JOIN maintenance_mark m USING (table_id)
                         LEFT JOIN table_snapshot s USING (table_id, branch, snapshot_id)
                         WHERE p.branch = 'main' AND {UNSETTLED} AND NOT EXISTS (
                             SELECT 1 FROM maintenance_lease l JOIN maintenance_owner o USING (owner)
                             WHERE l.table_id = t.table_id AND o.lease_until > now())
                         AND (NOT EXISTS (SELECT 1 FROM maintenance_owner WHERE lease_until > now())
                              OR coalesce(CASE WHEN m.snapshot_uuid = p.snapshot_uuid THEN m.due_at END,
                                          to_timestamp((s.body ->> 'timeMillis')::bigint / 1000.0)) < now() - interval '10 min')
                         ORDER BY 1) AS unattended,
                   coalesce((SELECT jsonb_object_agg(state, n) FROM (SELECT state, count(*) AS n FROM stream_job GROUP BY state) s),
                            '{{}}'::jsonb) AS jobs,
                   (SELECT count(*) FROM table_entry WHERE drop_id IS NOT NULL) AS dropped_tables,
                   (SELECT coalesce(sum(p.file_size), 0)::bigint FROM table_entry t JOIN snapshot_pointer p USING (table_id)
                    WHERE t.drop_id IS NOT NULL AND p.branch = 'main') AS dropped_bytes
        """  # noqa: S608 - a literal of catalog.work.maintenance
        with self._conn.cursor(row_factory=class_row(OverviewRow)) as cur:
            row = cur.execute(query).fetchone()
        assert row is not None
        return row

    def small_files(self, *, files: int, mean_bytes: int, limit: int) -> list[SmallFilesRow]:
        """Tables of at least so many files that are smaller than so many bytes on average, the worst first."""
        query = """
            SELECT t.database, t.name AS table_name, p.file_count, p.file_size FROM snapshot_pointer p JOIN sluice_table t USING (table_id)
            WHERE p.branch = 'main' AND p.file_count >= %s AND p.file_size < p.file_count * %s ORDER BY p.file_count DESC LIMIT %s
        """
        with self._conn.cursor(row_factory=class_row(SmallFilesRow)) as cur:
            return cur.execute(query, (files, mean_bytes, limit)).fetchall()

    def write_something(self) -> None:
        """Let the transaction be one that has to reach the disk; nothing is changed."""
        self._conn.execute("SELECT pg_logical_emit_message(true, 'sluice', '')")

    def pointers(self, *, after: tuple[UUID, str] | None = None, limit: int | None = None) -> list[PointerRow]:
        """Every table and branch with its newest snapshot, by the table's id; or a few after one."""
        query = f"""
            SELECT t.table_id, t.database, t.name AS table_name, b.branch, t.location, s.body, {TOP_SCHEMA} AS top_schema_id
            FROM table_entry t
            JOIN (SELECT table_id, 'main' AS branch FROM table_entry UNION ALL SELECT table_id, name FROM table_branch) b USING (table_id)
            LEFT JOIN snapshot_pointer p ON p.table_id = t.table_id AND p.branch = b.branch
            LEFT JOIN table_snapshot s ON s.table_id = p.table_id AND s.branch = p.branch AND s.snapshot_id = p.snapshot_id
            WHERE t.drop_id IS NULL AND (%(table)s::uuid IS NULL OR (t.table_id, b.branch) > (%(table)s, %(branch)s))
            ORDER BY t.table_id, b.branch LIMIT %(limit)s
        """  # noqa: S608 - a literal of catalog.objects.tables
        table, branch = after or (None, "")
        with self._conn.cursor(row_factory=class_row(PointerRow)) as cur:
            return cur.execute(query, {"table": table, "branch": branch, "limit": limit}).fetchall()

    def homes(self) -> list[tuple[str, int]]:
        """The warehouses whose databases' directories the catalog's own tables lie in, dropped ones too; how many, most first."""
        query = f"""
            SELECT {_HOME}, count(*) FROM table_entry
            WHERE NOT external AND location <> {_HOME} GROUP BY 1 ORDER BY 2 DESC, 1
        """  # noqa: S608 - literals of this module
        return [(str(home), int(tables)) for home, tables in self._conn.execute(query)]

    def kept_in(self, homes: Sequence[str], *, limit: int) -> list[str]:
        """Where the oldest tables lie in databases' directories of these warehouses, if their schemas were written; dropped ones last."""
        return self._kept(f"location <> {_HOME} AND {_HOME} = ANY(%(places)s)", list(homes), limit)

    def kept_below(self, prefix: str, *, limit: int) -> list[str]:
        """`kept_in`, for tables whose locations begin so."""
        return self._kept("starts_with(location, %(places)s)", prefix, limit)

    def _kept(self, where: str, places: list[str] | str, limit: int) -> list[str]:
        query = f"""
            SELECT location FROM table_entry
            WHERE {where} AND published_schema_id >= 0
              AND coalesce((SELECT s.body -> 'options' ->> 'type' FROM table_schema s
                            WHERE s.table_id = table_entry.table_id AND s.branch = 'main' AND s.schema_id = table_entry.schema_id), '')
                  <> ALL (%(directories)s)
            ORDER BY drop_id IS NOT NULL, created_at, table_id LIMIT %(limit)s
        """  # noqa: S608 - literals of this module
        values = {"places": places, "directories": sorted(DIRECTORY_KINDS), "limit": limit}
        return [str(row[0]) for row in self._conn.execute(query, values)]

    def diverged(self) -> list[tuple[UUID, str, str, str]]:
        """Tables whose files are ahead of or other than the catalog: id, database, name, and the file that shows it."""
        query = "SELECT table_id, database, name, diverged_at FROM sluice_table WHERE diverged_at IS NOT NULL ORDER BY 2, 3"
        return self._conn.execute(query).fetchall()

    def lagging(self, *, limit: int, behind: int = 1, branch: str | None = None) -> list[ConsumerLagRow]:
        """The consumers at least so many snapshots behind, those furthest behind first; of all branches, or of one."""
        query = """
            SELECT t.database, t.name AS table_name, c.branch, c.name, c.next_snapshot, p.snapshot_id AS latest, c.updated_at
            FROM stream_consumer c JOIN sluice_table t USING (table_id)
            JOIN snapshot_pointer p ON p.table_id = c.table_id AND p.branch = c.branch
            WHERE c.next_snapshot IS NOT NULL AND p.snapshot_id - c.next_snapshot + 1 >= %(behind)s
              AND (%(branch)s::text IS NULL OR c.branch = %(branch)s)
            ORDER BY p.snapshot_id - c.next_snapshot DESC, 1, 2, 3, 4 LIMIT %(limit)s
        """
        with self._conn.cursor(row_factory=class_row(ConsumerLagRow)) as cur:
            return cur.execute(query, {"behind": behind, "branch": branch, "limit": limit}).fetchall()
