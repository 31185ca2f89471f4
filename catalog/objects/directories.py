"""Directories of tables and branches: those that are taken, and those that are garbage once what lay there was dropped."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.connection import CatalogConnection
from catalog.records import DiscardedRow

DISCARD = """
    INSERT INTO dropped_directory (location, known) SELECT %(location)s::text, jsonb_build_object(
      'schemas', (SELECT jsonb_object_agg(s.schema_id, s.body -> 'timeMillis') FROM table_schema s
                  WHERE s.table_id = %(table)s AND s.branch = %(branch)s),
      'snapshots', (SELECT jsonb_agg(s.snapshot_uuid) FROM table_snapshot s WHERE s.table_id = %(table)s AND s.branch = %(branch)s),
      'stale', (SELECT jsonb_agg(substr(f.path, length(d.below) + 1)) FROM stale_file f
                WHERE f.table_id = %(table)s AND starts_with(f.path, d.below) AND (d.below <> '' OR NOT starts_with(f.path, 'branch/'))))
    FROM (SELECT coalesce((SELECT substr(%(location)s::text, length(t.location) + 2) || '/' FROM table_entry t
                           WHERE t.table_id = %(table)s AND starts_with(%(location)s::text, t.location || '/')), '') AS below) d
    ON CONFLICT DO NOTHING
"""
"""Remembers the directory of a table or branch as garbage, with what is known of it: while its rows are there."""
_RENAMED = "jsonb_build_object('table', %(table)s::text, 'branch', %({})s::text)"
_FOR = f" WHERE known -> 'renamed' = {_RENAMED.format('branch')}"
"""The directories of all earlier names of a branch."""


FILLED_KEY = "hashtextextended('sluice filled ' || %(location)s, 0)"
"""The lock of who fills a directory that is on record as garbage until it is a table's (`catalog.backup.holds.filling`)."""
_FILLED_WITHIN = timedelta(days=7)
"""No restore of a table under another name takes as long."""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


class Taken(Enum):
    """What a place is taken by."""

    TABLE = "a table"
    DROPPED_TABLE = "a dropped table that can be brought back"
    GARBAGE = "a directory that is being removed"
    FILES = "files of a table that lie outside of its directory"


class DirectoryRepository:
    """Reads and writes ``dropped_directory``, and the places of ``table_entry``, inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def discard_known(self, location: str, table_id: UUID, branch: str) -> None:
        """Remember the directory of a table or branch as garbage, and by what it is told from another's that may be made there."""
        self._conn.later(DISCARD, {"location": location, "table": table_id, "branch": branch})
        self._conn.later("UPDATE dropped_directory SET known = known - 'renamed'" + _FOR, {"table": str(table_id), "branch": branch})  # noqa: S608

    def discard_renamed(self, location: str, table_id: UUID, branch: str, *, to: str) -> None:
        """The same for a branch that has another name by now, whose directory tells of it until that is `carried` over."""
        self._conn.later(DISCARD, {"location": location, "table": table_id, "branch": to})
        query = f"""
            UPDATE dropped_directory SET known = known || jsonb_build_object('renamed', {_RENAMED.format("to")})
            {_FOR} OR location = %(location)s
        """  # noqa: S608 - all literals of this module
        self._conn.later(query, {"table": str(table_id), "branch": branch, "to": to, "location": location})

    def carried(self, location: str) -> None:
        """Note that a directory tells nothing more of a branch that was renamed."""
        self._conn.later("UPDATE dropped_directory SET known = known - 'renamed' WHERE location = %s", (location,))

    def discard(self, location: str) -> None:
        """The same for one whose rows are gone."""
        self._conn.later("INSERT INTO dropped_directory (location) VALUES (%s) ON CONFLICT DO NOTHING", (location,))

    def discard_filled(self, location: str) -> None:
        """The same for one that is filled for a table that is to be: any snapshot or schema that lies there is of that table.

        It is garbage from a time ahead on, as servers of before `FILLED_KEY` do not see that it is being filled.
        """
        query = "INSERT INTO dropped_directory (location, known, dropped_at) VALUES (%s, %s, now() + %s) ON CONFLICT DO NOTHING"
        self._conn.later(query, (location, Jsonb({"schemas": {}, "snapshots": [], "stale": []}), _FILLED_WITHIN))

    def dropped_directories(self, *, older_than: timedelta = timedelta(0)) -> list[str]:
        """Directories of removed tables that may still hold files, garbage for so long at least; and those filled for tables to be."""
        query = "SELECT location FROM dropped_directory WHERE dropped_at <= now() - %s OR dropped_at > now()"
        return [location for (location,) in self._conn.execute(query, (older_than,)).fetchall()]

    def is_discarded(self, location: str) -> bool:
        """Whether a directory is garbage now."""
        query = "SELECT EXISTS (SELECT 1 FROM dropped_directory WHERE location = %s)"
        row = self._conn.execute(query, (location,)).fetchone()
        return row is not None and bool(row[0])

    def lock_discarded(self, location: str) -> DiscardedRow | None:
        """Keep others from making or removing this directory until the transaction ends; what is on record of it, None for no garbage."""
        self._conn.later(_LOCK, (location,))
        return self.discarded(location)

    def discarded(self, location: str) -> DiscardedRow | None:
        """What is on record of a directory that is garbage; None where it is none."""
        with self._conn.cursor(row_factory=class_row(DiscardedRow)) as cur:
            query = f"""
                SELECT dropped_at, known, NOT pg_try_advisory_xact_lock_shared({FILLED_KEY}) AS being_filled
                FROM dropped_directory WHERE location = %(location)s
            """  # noqa: S608 - the key is a literal of this module
            return cur.execute(query, {"location": location}).fetchone()

    def lock_location(self, location: str) -> bool:
        """Keep others from making or removing this directory until the transaction ends; True when it is garbage now."""
        return self.lock_place(location)[0]

    def lock_place(self, location: str) -> tuple[bool, bool]:
        """The same for a new table's directory: whether it is garbage; and whether a table lies there, also a dropped one."""
        self._conn.later(_LOCK, (location,))
        query = """
            SELECT EXISTS (SELECT 1 FROM dropped_directory WHERE location = %(place)s),
                   EXISTS (SELECT 1 FROM table_entry WHERE location = %(place)s OR moving_from = %(place)s)
        """
        row = self._conn.execute(query, {"place": location}).fetchone()
        assert row is not None
        return row[0], row[1]

    def directory_removed(self, location: str) -> None:
        """Forget a directory that is gone."""
        self._conn.later("DELETE FROM dropped_directory WHERE location = %s", (location,))

    def lock_places(self) -> None:
        """Keep others from choosing a place by path until the transaction ends."""
        self._conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('sluice places', 0))")

    def locations(self, *, but_files_of: UUID | None = None) -> list[tuple[Taken, str]]:
        """Every place that is taken, and by what; those outside of its directory where files of one table may lie can be left out."""
        query = """
            SELECT CASE WHEN drop_id IS NULL THEN 'TABLE' ELSE 'DROPPED_TABLE' END, location FROM table_entry
            UNION ALL SELECT CASE WHEN drop_id IS NULL THEN 'TABLE' ELSE 'DROPPED_TABLE' END, moving_from FROM table_entry
            WHERE moving_from IS NOT NULL
            UNION ALL SELECT 'GARBAGE', location FROM dropped_directory
            UNION ALL SELECT 'FILES', unnest(allowed_locations) FROM table_entry WHERE table_id IS DISTINCT FROM %s
        """
        return [(Taken[taken], location) for taken, location in self._conn.execute(query, (but_files_of,)).fetchall()]
