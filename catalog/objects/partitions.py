"""Partitions of tables and branches, with what their files hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.connection import CatalogConnection
from catalog.listing import EVERYTHING, Slice
from catalog.records import PartitionRow
from model.partition import PartitionStatistics

_COLUMNS = """name, spec, record_count, file_size, file_count, last_file_millis, total_buckets, explicit, done, options,
    created_at, created_by, updated_at, updated_by"""
COMMITTED = """
    (table_id, branch, name, spec, record_count, file_size, file_count, last_file_millis, total_buckets, created_by, updated_by)
"""
"""The columns of ``table_partition`` that a commit fills."""
AND_ADDED = """
    ON CONFLICT (table_id, branch, name) DO UPDATE
      SET record_count = p.record_count + excluded.record_count, file_size = p.file_size + excluded.file_size,
          file_count = p.file_count + excluded.file_count, total_buckets = excluded.total_buckets,
          last_file_millis = greatest(p.last_file_millis, excluded.last_file_millis), updated_at = now(),
          updated_by = coalesce(excluded.updated_by, p.updated_by)
"""
"""How what a commit adds comes to the row that is there."""
_AS_COUNTED = """
    ON CONFLICT (table_id, branch, name) DO UPDATE
      SET record_count = excluded.record_count, file_size = excluded.file_size, file_count = excluded.file_count,
          total_buckets = excluded.total_buckets, last_file_millis = excluded.last_file_millis,
          updated_at = CASE
            WHEN (p.record_count, p.file_size, p.file_count) = (excluded.record_count, excluded.file_size, excluded.file_count)
            THEN p.updated_at ELSE greatest(p.updated_at, coalesce(%(pointed)s::timestamptz, now())) END
"""
"""How what was counted replaces the row that is there; one that says the same was changed by nobody.

Commits keep the time of the newest file also where that went, so that it tells no change.
"""
EMPTIED = """
    UPDATE table_partition p SET record_count = 0, file_size = 0, file_count = 0, last_file_millis = 0
    WHERE table_id = %(table)s AND branch = %(branch)s
      AND NOT EXISTS (SELECT 1 FROM unnest(%(names)s::text[]) AS counted (name) WHERE counted.name = p.name)
"""
"""The rows of which a count found nothing. Postgres would hold each row against all of an array's names where it plans for any array."""
_OF_BRANCH = "WHERE table_id = %(table)s AND branch = %(branch)s"


class PartitionRepository:
    """Reads and writes ``table_partition`` inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def page(self, table_id: UUID, branch: str, wanted: Slice = EVERYTHING) -> list[PartitionRow]:
        """The partitions wanted, by name."""
        query = f"SELECT {_COLUMNS} FROM table_partition {_OF_BRANCH}{wanted.where('name')} ORDER BY name{wanted.limited()}"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(PartitionRow)) as cur:
            return cur.execute(query, {"table": table_id, "branch": branch, **wanted.values()}).fetchall()

    def named(self, table_id: UUID, branch: str, names: Sequence[str]) -> list[PartitionRow]:
        """Those of these names that exist."""
        query = f"SELECT {_COLUMNS} FROM table_partition {_OF_BRANCH} AND name = ANY(%(names)s) ORDER BY name"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(PartitionRow)) as cur:
            return cur.execute(query, {"table": table_id, "branch": branch, "names": list(names)}).fetchall()

    def create(self, table_id: UUID, branch: str, specs: Mapping[str, Mapping[str, str]], *, by: str | None) -> set[str]:
        """Add partitions without files by their names; returns which were made. The row of one that there is stays as it is."""
        query = """
            INSERT INTO table_partition (table_id, branch, name, spec, record_count, file_size, file_count, last_file_millis,
                                         total_buckets, explicit, created_by, updated_by)
            SELECT %(table)s, %(branch)s, name, spec, 0, 0, 0, 0, 0, true, %(by)s, %(by)s
            FROM unnest(%(names)s::text[], %(specs)s::jsonb[]) AS given (name, spec)
            ORDER BY name COLLATE "C"
            ON CONFLICT (table_id, branch, name) DO NOTHING
            RETURNING name
        """
        names = sorted(specs)  # as others lock them
        values = {"table": table_id, "branch": branch, "by": by, "names": names, "specs": [Jsonb(dict(specs[name])) for name in names]}
        return {name for (name,) in self._conn.execute(query, values)}

    def drop(self, table_id: UUID, branch: str, names: Sequence[str]) -> None:
        """Remove the rows of these partitions, whatever they hold."""
        self.hold(table_id, branch, names)
        query = f"DELETE FROM table_partition {_OF_BRANCH} AND name = ANY(%(names)s)"  # noqa: S608
        self._conn.execute(query, {"table": table_id, "branch": branch, "names": list(names)})

    def forget(self, table_id: UUID, branch: str, names: Sequence[str]) -> None:
        """Remove those of these names that have no files, also where they were made by name."""
        gone = f"DELETE FROM table_partition {_OF_BRANCH} AND name = ANY(%(names)s) AND file_count <= 0"  # noqa: S608
        self._conn.execute(gone, {"table": table_id, "branch": branch, "names": list(names)})

    def mark_done(self, table_id: UUID, branch: str, names: Sequence[str], *, by: str | None) -> int:
        """Mark partitions as complete; returns how many there were."""
        self.hold(table_id, branch, names)
        query = f"""
            UPDATE table_partition SET done = true, updated_at = now(), updated_by = coalesce(%(by)s, updated_by)
            {_OF_BRANCH} AND name = ANY(%(names)s)
        """  # noqa: S608
        return self._conn.execute(query, {"table": table_id, "branch": branch, "names": list(names), "by": by}).rowcount

    def add(self, table_id: UUID, branch: str, changes: Iterable[tuple[str, PartitionStatistics]], *, by: str | None) -> None:
        """Follow a commit by somebody; a partition whose files are all gone goes too unless it was made by name."""
        query = f"""
            INSERT INTO table_partition AS p {COMMITTED}
            VALUES (%(table)s, %(branch)s, %(name)s, %(spec)s, %(records)s, %(size)s, %(files)s, %(last)s, %(buckets)s, %(by)s, %(by)s)
            {AND_ADDED}
        """  # noqa: S608 - literals of this module
        values = [self._values(table_id, branch, name, change) for name, change in sorted(changes, key=lambda change: change[0])]
        with self._conn.cursor() as cur:
            cur.executemany(query, [partition | {"by": by} for partition in values])
        if any(change["files"] <= 0 for change in values):  # type: ignore[operator] # it is a whole number
            gone = f"DELETE FROM table_partition {_OF_BRANCH} AND file_count <= 0 AND NOT explicit"  # noqa: S608
            self._conn.execute(gone, {"table": table_id, "branch": branch})

    def report(self, table_id: UUID, branch: str, reported: Iterable[tuple[str, PartitionStatistics]], *, replace: bool) -> None:
        """Fold what a client says into the rows of partitions that exist; a negative number is one it does not know."""
        query = f"""
            UPDATE table_partition SET
              record_count = CASE WHEN %(records)s < 0 THEN record_count WHEN %(set)s THEN %(records)s ELSE record_count + %(records)s END,
              file_size = CASE WHEN %(size)s < 0 THEN file_size WHEN %(set)s THEN %(size)s ELSE file_size + %(size)s END,
              file_count = CASE WHEN %(files)s < 0 THEN file_count WHEN %(set)s THEN %(files)s ELSE file_count + %(files)s END,
              last_file_millis = CASE WHEN %(last)s < 0 THEN last_file_millis WHEN %(set)s THEN %(last)s
                                      ELSE greatest(last_file_millis, %(last)s) END
            {_OF_BRANCH} AND name = %(name)s
        """  # noqa: S608
        in_order = sorted(reported, key=lambda partition: partition[0])
        with self._conn.cursor() as cur:
            cur.executemany(query, [self._values(table_id, branch, name, statistics) | {"set": replace} for name, statistics in in_order])

    def replace(self, table_id: UUID, branch: str, partitions: Iterable[tuple[str, PartitionStatistics]]) -> None:
        """Let the rows say what was counted; what clients said of a partition stays."""
        counted = sorted(partitions, key=lambda partition: partition[0])
        self.hold(table_id, branch, None)
        self._conn.execute(EMPTIED, {"table": table_id, "branch": branch, "names": [name for name, _ in counted]})
        query = f"""
            INSERT INTO table_partition AS p (table_id, branch, name, spec, record_count, file_size, file_count, last_file_millis,
                                              total_buckets, created_at, updated_at)
            VALUES (%(table)s, %(branch)s, %(name)s, %(spec)s, %(records)s, %(size)s, %(files)s, %(last)s,
                    %(buckets)s, %(since)s, %(since)s)
            {_AS_COUNTED}
        """  # noqa: S608 - literals of this module
        pointed, since = self._came(table_id, branch)
        times = {"pointed": pointed, "since": since}
        with self._conn.cursor() as cur:
            cur.executemany(query, [self._values(table_id, branch, name, partition) | times for name, partition in counted])
        gone = f"DELETE FROM table_partition {_OF_BRANCH} AND file_count <= 0 AND NOT explicit"  # noqa: S608
        self._conn.execute(gone, {"table": table_id, "branch": branch})

    def unlisted_since(self, table_id: UUID, branch: str) -> datetime:
        """Since when a branch may hold partitions that have no rows: it was made, or set to a snapshot otherwise than by a commit."""
        return self._came(table_id, branch)[1]

    def _came(self, table_id: UUID, branch: str) -> tuple[datetime | None, datetime]:
        """When a branch was set by anything but a commit, as far as that is on record, and that or when it was made."""
        query = """
            SELECT p.pointed_at, coalesce(p.pointed_at, b.created_at, t.created_at) FROM table_entry t
            LEFT JOIN table_branch b ON b.table_id = t.table_id AND b.name = %(branch)s
            LEFT JOIN snapshot_pointer p ON p.table_id = t.table_id AND p.branch = %(branch)s
            WHERE t.table_id = %(table)s
        """
        row = self._conn.execute(query, {"table": table_id, "branch": branch}).fetchone()
        assert row is not None
        return row[0], row[1]

    def hold(self, table_id: UUID, branch: str, names: Sequence[str] | None) -> None:
        """Lock rows, all where none are named, in the order in which commits do: two would wait for each other in a circle otherwise."""
        query = f"""
            SELECT 1 FROM table_partition {_OF_BRANCH} AND (%(names)s::text[] IS NULL OR name = ANY(%(names)s))
            ORDER BY name FOR UPDATE
        """  # noqa: S608
        values = {"table": table_id, "branch": branch, "names": None if names is None else list(names)}
        self._conn.later(query, values)

    @staticmethod
    def _values(table_id: UUID, branch: str, name: str, statistics: PartitionStatistics) -> dict[str, object]:
        return {
            "table": table_id, "branch": branch, "name": name, "spec": Jsonb(dict(statistics.spec)), "records": statistics.record_count,
            "size": statistics.file_size, "files": statistics.file_count, "last": statistics.last_file_millis,
            "buckets": statistics.total_buckets,
        }  # fmt: skip
