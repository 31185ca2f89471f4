"""Snapshots and the pointers that decide which is the latest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from catalog.commits.reservations import NOBODYS_TURN
from catalog.connection import CatalogConnection
from catalog.records import CountsRow, HeadRow, SnapshotRow
from model.errors import CommitConflict
from model.identifier import MAIN_BRANCH, Identifier
from model.snapshot import TAKES_FILES

SNAPSHOT_COLUMNS = "s.snapshot_id, s.snapshot_uuid, s.body, s.published, s.decided_at"
_COUNTS = "p.record_count, p.file_size, p.file_count, p.last_file_millis, p.counted, p.listed"
_POINTER = """
    snapshot_pointer (table_id, branch, snapshot_id, snapshot_uuid, record_count, file_size, file_count, last_file_millis, counted, listed)
"""
_FIRST_ROW = "%(table)s::uuid, %(branch)s, %(id)s, %(uuid)s, %(records)s, %(size)s, %(files)s, %(last)s, %(counted)s, %(listed)s"
_FIRST = f"INSERT INTO {_POINTER} VALUES ({_FIRST_ROW}) ON CONFLICT DO NOTHING"  # noqa: S608 - literals of this module
FIRST_HELD = f"INSERT INTO {_POINTER} SELECT {_FIRST_ROW} FROM held ON CONFLICT DO NOTHING"  # noqa: S608
_MAY = f"""
    (%(writer)s::text IS NULL
     OR CASE WHEN reserved_until >= clock_timestamp() THEN reserved_by = %(writer)s ELSE %(turn)s OR {NOBODYS_TURN} END)
"""
_NEXT = f"""
    UPDATE snapshot_pointer
    SET snapshot_id = %(id)s, snapshot_uuid = %(uuid)s, record_count = record_count + %(records)s, file_size = file_size + %(size)s,
        file_count = file_count + %(files)s, last_file_millis = greatest(last_file_millis, %(last)s),
        counted = counted AND %(counted)s, listed = listed AND %(listed)s,
        reserved_until = CASE WHEN reserved_by = %(writer)s THEN NULL ELSE reserved_until END
    WHERE table_id = %(table)s AND branch = %(branch)s AND snapshot_uuid = %(base)s
      AND {_MAY}
"""  # noqa: S608 - literals of this package
NEXT_HELD = f"{_NEXT} AND table_id IN (SELECT table_id FROM held)"  # noqa: S608
_INSERT_MOVED = """
    INSERT INTO table_snapshot (table_id, branch, snapshot_id, snapshot_uuid, body, published, decided_at)
    SELECT table_id, %(branch)s, %(id)s, %(uuid)s, %(body)s, false, {decided_at} FROM moved
"""
INSERT_MOVED = _INSERT_MOVED.format(decided_at="clock_timestamp()")
_INSERT_FOUND = _INSERT_MOVED.format(decided_at="NULL::timestamptz")


ListsRow = tuple[str, int, str, str | None, str | None, str | None]
"""A snapshot's branch, id and key, and the names of its manifest lists: base, delta, changelog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What a commit adds to the totals of its branch, or what they are."""

    records: int
    size: int
    files: int
    last_millis: int
    listed: bool
    """Whether the rows of the partitions follow the commit too."""


def values_of_added(added: Added | None) -> dict[str, object]:
    """What the statements of this package call its parts."""
    if added is None:
        return {"records": 0, "size": 0, "files": 0, "last": 0, "counted": False, "listed": False}
    return {
        "records": added.records, "size": added.size, "files": added.files, "last": added.last_millis,
        "counted": True, "listed": added.listed,
    }  # fmt: skip


IN_ORDER = """
    SELECT 1 FROM table_snapshot WHERE table_id = %(table)s AND branch = %(branch)s AND snapshot_id > %(above)s
    ORDER BY snapshot_id FOR UPDATE
"""
"""Takes a branch's rows as `PublicationRepository.note` does, which does not hold the table: two would wait for each other otherwise."""
BESIDE = """
    ARRAY[
        (SELECT coalesce(string_agg(o.branch || ' ' || o.snapshot_uuid, ',' ORDER BY o.branch), '') FROM snapshot_pointer o
         WHERE o.table_id = t.table_id AND o.branch <> %(branch)s),
        (SELECT count(*) || ' ' || coalesce(sum(hashtextextended(g.branch || '/' || g.name, 0)), 0)
         FROM table_tag g WHERE g.table_id = t.table_id)
    ]
"""
"""Of a table ``t``: the newest snapshots of all branches but one, and which tags there are."""


class SnapshotRepository:
    """Reads and writes ``snapshot_pointer`` and ``table_snapshot`` inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def _rows(self, query: str, values: Sequence[object] | Mapping[str, object]) -> list[SnapshotRow]:
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, values).fetchall()

    def latest(self, table_id: UUID, branch: str) -> SnapshotRow | None:
        """The snapshot the branch points at, or None for a table without any."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM snapshot_pointer p
            JOIN table_snapshot s ON s.table_id = p.table_id AND s.branch = p.branch AND s.snapshot_id = p.snapshot_id
            WHERE p.table_id = %s AND p.branch = %s
        """  # noqa: S608 - the columns are a literal of this module
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch)).fetchone()

    def there_are(self, table_id: UUID) -> bool:
        """Whether something was written to a table, to main or to a branch alone."""
        row = self._conn.execute("SELECT EXISTS (SELECT 1 FROM table_snapshot WHERE table_id = %s)", (table_id,)).fetchone()
        return row is not None and bool(row[0])

    def latest_counted(self, table_id: UUID, branch: str) -> tuple[SnapshotRow, CountsRow] | None:
        """The same with what it holds, as far as that is known."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS}, {_COUNTS} FROM snapshot_pointer p
            JOIN table_snapshot s ON s.table_id = p.table_id AND s.branch = p.branch AND s.snapshot_id = p.snapshot_id
            WHERE p.table_id = %s AND p.branch = %s
        """  # noqa: S608
        with self._conn.cursor(row_factory=dict_row) as cur:
            latest = cur.execute(query, (table_id, branch)).fetchone()
        if latest is None:
            return None
        row = SnapshotRow(
            **{name: latest.pop(name) for name in ("snapshot_id", "body", "published", "decided_at")}, snapshot_uuid=latest["snapshot_uuid"]
        )
        return row, CountsRow(**latest)

    def get(self, table_id: UUID, branch: str, snapshot_id: int) -> SnapshotRow | None:
        """One snapshot, or None."""
        query = f"SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND branch = %s AND snapshot_id = %s"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch, snapshot_id)).fetchone()

    def newest_of(self, table_id: UUID, branch: str, kind: str, *, most: int) -> list[SnapshotRow]:
        """The newest kept snapshots of one commit kind, newest first."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND branch = %s AND body ->> 'commitKind' = %s
            ORDER BY snapshot_id DESC LIMIT %s
        """  # noqa: S608
        return self._rows(query, (table_id, branch, kind, most))

    def appended_since(self, table_id: UUID, branch: str, snapshot_id: int, *, most: int = 10_000) -> int:
        """How many snapshots from one on added rows; counted up to ``most``."""
        query = """
            SELECT count(*) FROM (
                SELECT 1 FROM table_snapshot
                WHERE table_id = %s AND branch = %s AND snapshot_id >= %s AND body ->> 'commitKind' = 'APPEND' LIMIT %s
            ) unread
        """
        row = self._conn.execute(query, (table_id, branch, snapshot_id, most)).fetchone()
        return int(row[0]) if row is not None else 0

    def changes_since(
        self, table_id: UUID, branch: str, snapshot_id: int, *, appends: bool = False
    ) -> list[tuple[int, str, Mapping[str, Any] | None]]:
        """The snapshots from one on, each with its key, and its body where it may have changed rows, or with ``appends`` added some."""
        query = """
            SELECT snapshot_id, snapshot_uuid,
                   CASE WHEN body ->> 'commitKind' = 'OVERWRITE' OR body ->> 'operation' = 'MERGE'
                          OR (%(appends)s AND body ->> 'commitKind' = 'APPEND') THEN body END
            FROM table_snapshot WHERE table_id = %(table)s AND branch = %(branch)s AND snapshot_id >= %(first)s ORDER BY snapshot_id
        """
        values = {"table": table_id, "branch": branch, "first": snapshot_id, "appends": appends}
        return self._conn.execute(query, values).fetchall()

    def whose(self, uuids: Sequence[str], *, but: UUID) -> str | None:
        """Another table that has one of these snapshots, ``database.name``; None where no other has. Looks through all snapshots."""
        query = """
            SELECT t.database || '.' || t.name FROM table_snapshot s JOIN sluice_table t USING (table_id)
            WHERE s.snapshot_uuid = ANY(%s) AND s.table_id <> %s LIMIT 1
        """
        row = self._conn.execute(query, (list(uuids), but)).fetchone()
        return None if row is None else str(row[0])

    def by_uuid(self, table_id: UUID, snapshot_uuid: str, branch: str = MAIN_BRANCH) -> SnapshotRow | None:
        """The snapshot of that uuid, or None: how the outcome of a lost answer is found out."""
        query = f"SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND branch = %s AND snapshot_uuid = %s"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch, snapshot_uuid)).fetchone()

    def wait_for_deciders(self, table_id: UUID) -> None:
        """Wait until no decision about the table is under way, and let none begin before the transaction ends.

        What is looked for afterwards is as final as it can be: a transaction whose client has lost its answer may still be at work.
        """
        self._conn.execute("SELECT 1 FROM sluice_table WHERE table_id = %s FOR UPDATE", (table_id,))

    def by_commit(self, table_id: UUID, branch: str, *, user: str, identifier: int, kind: str) -> list[SnapshotRow]:
        """The snapshots of a streaming writer's commit, the newest first; never asked for the batch identifier."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s
            WHERE table_id = %(table)s AND branch = %(branch)s
              AND body ->> 'commitUser' = %(user)s AND (body ->> 'commitIdentifier')::bigint = %(id)s AND body ->> 'commitKind' = %(kind)s
            ORDER BY snapshot_id DESC
        """  # noqa: S608
        values = {"table": table_id, "branch": branch, "user": user, "id": identifier, "kind": kind}
        return self._rows(query, values)

    def newest_property(self, table_id: UUID, branch: str, key: str, *, user: str, but: int | None = None) -> str | None:
        """A property of the newest snapshot of a ``commitUser`` that has it, but those with the identifier ``but``; None where none has."""
        query = """
            WITH theirs AS MATERIALIZED (  -- by the index on commitUser: Postgres must not go through the whole history backwards
                SELECT snapshot_id, body -> 'properties' ->> %(key)s AS value FROM table_snapshot
                WHERE table_id = %(table)s AND branch = %(branch)s AND body ->> 'commitUser' = %(user)s
                  AND (body ->> 'commitIdentifier')::bigint IS DISTINCT FROM %(but)s
            )
            SELECT value FROM theirs WHERE value IS NOT NULL ORDER BY snapshot_id DESC LIMIT 1
        """
        row = self._conn.execute(query, {"table": table_id, "branch": branch, "key": key, "user": user, "but": but}).fetchone()
        return None if row is None else str(row[0])

    def history(self, table_id: UUID, branch: str, *, first: int | None = None) -> list[SnapshotRow]:
        """All snapshots, oldest first, or the oldest few."""
        query = f"SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND branch = %s ORDER BY snapshot_id LIMIT %s"  # noqa: S608
        return self._rows(query, (table_id, branch, first))

    def newest_shared(self, table_id: UUID, branch: str) -> int | None:
        """The id of a branch's newest snapshot that main has, too; None where they share none."""
        query = """
            SELECT max(snapshot_id) FROM table_snapshot s JOIN table_snapshot m USING (table_id, snapshot_id, snapshot_uuid)
            WHERE table_id = %s AND s.branch = %s AND m.branch = %s
        """
        row = self._conn.execute(query, (table_id, branch, MAIN_BRANCH)).fetchone()
        return None if row is None else row[0]

    def taking_files(self, table_id: UUID, branch: str, *, above: int) -> list[SnapshotRow]:
        """The snapshots after an id that may take files away (`Snapshot.may_take_files`), and the latest, oldest first."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s
            WHERE table_id = %(table)s AND branch = %(branch)s AND snapshot_id > %(above)s
              AND (body ->> 'commitKind' <> 'APPEND' OR body -> 'properties' ? %(takes)s
              OR snapshot_id = (SELECT snapshot_id FROM snapshot_pointer p WHERE p.table_id = %(table)s AND p.branch = %(branch)s))
            ORDER BY snapshot_id
        """  # noqa: S608
        return self._rows(query, {"table": table_id, "branch": branch, "above": above, "takes": TAKES_FILES})

    def head(self, table: Identifier) -> HeadRow | None:
        """What a commit to the table or branch is compared with, in one statement; None where there is no such table."""
        if table.branch == MAIN_BRANCH:
            branch, schema_id = "", "t.schema_id"
        else:
            branch, schema_id = "JOIN table_branch b ON b.table_id = t.table_id AND b.name = %(branch)s", "b.schema_id"
        query = f"""
            SELECT t.table_id, t.location, t.allowed_locations, t.moving_from, t.diverged_at, {schema_id} AS schema_id,
                   EXISTS (SELECT 1 FROM stale_file f WHERE f.table_id = t.table_id) AS stale,
                   p.snapshot_id, p.snapshot_uuid AS snapshot_key, s.body ->> 'uuid' AS snapshot_uuid,
                   (s.body ->> 'schemaId')::bigint AS snapshot_schema_id, s.published,
                   ARRAY(SELECT jsonb_array_elements_text(v.body -> 'partitionKeys')) AS partition_keys, {BESIDE} AS beside
            FROM sluice_table t {branch}
            JOIN table_schema v ON v.table_id = t.table_id AND v.branch = %(branch)s AND v.schema_id = {schema_id}
            LEFT JOIN snapshot_pointer p ON p.table_id = t.table_id AND p.branch = %(branch)s
            LEFT JOIN table_snapshot s ON s.table_id = p.table_id AND s.branch = p.branch AND s.snapshot_id = p.snapshot_id
            WHERE t.database = %(database)s AND t.name = %(table)s
        """  # noqa: S608 - the parts are literals of this module
        values = {"database": table.database, "table": table.table, "branch": table.branch}
        with self._conn.cursor(row_factory=class_row(HeadRow)) as cur:
            return cur.execute(query, values).fetchone()

    def since(self, table_id: UUID, branch: str, first: int, *, limit: int) -> list[SnapshotRow]:
        """Snapshots from an id on, oldest first."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s
            WHERE table_id = %s AND branch = %s AND snapshot_id >= %s ORDER BY snapshot_id LIMIT %s
        """  # noqa: S608
        return self._rows(query, (table_id, branch, first, limit))

    def lists_since(self, table_id: UUID, firsts: Mapping[str, int]) -> list[ListsRow]:
        """The manifest lists of a table's snapshots, on all branches: of some branches from an id on."""
        query = """
            SELECT b.name, s.snapshot_id, s.snapshot_uuid,
                   s.body ->> 'baseManifestList', s.body ->> 'deltaManifestList', s.body ->> 'changelogManifestList'
            FROM (SELECT %(main)s AS name UNION ALL SELECT name FROM table_branch WHERE table_id = %(table)s) b
            LEFT JOIN unnest(%(branches)s::text[], %(firsts)s::bigint[]) AS k (name, first) ON k.name = b.name
            JOIN table_snapshot s ON s.table_id = %(table)s AND s.branch = b.name AND s.snapshot_id >= coalesce(k.first, 0)
        """
        values = {"main": MAIN_BRANCH, "table": table_id, "branches": list(firsts), "firsts": list(firsts.values())}
        return self._conn.execute(query, values).fetchall()

    def page(self, table_id: UUID, branch: str, *, below: int | None, limit: int) -> list[SnapshotRow]:
        """Snapshots with ids below one, newest first."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s
            WHERE table_id = %(table)s AND branch = %(branch)s AND (%(below)s::bigint IS NULL OR snapshot_id < %(below)s)
            ORDER BY snapshot_id DESC LIMIT %(limit)s
        """  # noqa: S608
        return self._rows(query, {"table": table_id, "branch": branch, "below": below, "limit": limit})

    def ids(self, table_id: UUID, branch: str) -> list[tuple[int, bool]]:
        """The ids of all snapshots, oldest first, and whether their files are known to have been there."""
        query = "SELECT snapshot_id, published FROM table_snapshot WHERE table_id = %s AND branch = %s ORDER BY snapshot_id"
        return self._conn.execute(query, (table_id, branch)).fetchall()

    def earliest(self, table_id: UUID, branch: str) -> SnapshotRow | None:
        """The oldest snapshot, or None."""
        query = f"SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND branch = %s ORDER BY snapshot_id LIMIT 1"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(SnapshotRow)) as cur:
            return cur.execute(query, (table_id, branch)).fetchone()

    def advance(  # noqa: PLR0913 - the columns of a row
        self,
        table_id: UUID,
        branch: str,
        *,
        base: str | None,
        snapshot_id: int,
        uuid: str,
        body: Mapping[str, Any],
        added: Added | None = None,
        writer: str | None = None,
        turn: bool = False,
        found: bool = False,
    ) -> None:
        """Point at the new snapshot if the branch still points at ``base``; raise `CommitConflict` otherwise.

        One guarded statement: its row count is the verdict. A table without snapshots has no pointer row yet.
        ``added`` is what the commit changes in the totals; None makes them be counted anew when somebody asks.
        A ``writer`` respects whose turn it is; ``turn`` says that it is the writer's. One that was ``found`` is not decided here now.
        """
        values = {
            "table": table_id, "branch": branch, "id": snapshot_id, "uuid": uuid, "base": base, "body": Jsonb(dict(body)),
            "writer": writer, "turn": turn, **values_of_added(added),
        }  # fmt: skip
        query = f"WITH moved AS ({_FIRST if base is None else _NEXT} RETURNING table_id) {_INSERT_FOUND if found else INSERT_MOVED}"
        if self._conn.execute(query, values).rowcount == 0:
            raise CommitConflict(str(table_id), expected=base)

    def counts(self, table_id: UUID, branch: str) -> CountsRow | None:
        """What the latest snapshot holds, as far as it is known; None without snapshots."""
        query = f"SELECT p.snapshot_uuid, {_COUNTS} FROM snapshot_pointer p WHERE table_id = %s AND branch = %s"  # noqa: S608
        with self._conn.cursor(row_factory=class_row(CountsRow)) as cur:
            return cur.execute(query, (table_id, branch)).fetchone()

    def count(self, table_id: UUID, branch: str, *, uuid: str, totals: Added) -> bool:
        """Store totals counted anew; False when the branch points elsewhere by now."""
        query = """
            UPDATE snapshot_pointer
            SET record_count = %(records)s, file_size = %(size)s, file_count = %(files)s, last_file_millis = %(last)s,
                counted = true, listed = %(listed)s
            WHERE table_id = %(table)s AND branch = %(branch)s AND snapshot_uuid = %(uuid)s
        """
        values = {"table": table_id, "branch": branch, "uuid": uuid, **values_of_added(totals)}
        return self._conn.execute(query, values).rowcount == 1

    def point(self, table_id: UUID, branch: str, row: SnapshotRow | None) -> None:
        """Point at a snapshot that exists, whatever the branch pointed at; the caller holds the table's lock. None: at nothing."""
        if row is None:
            self._conn.execute("DELETE FROM snapshot_pointer WHERE table_id = %s AND branch = %s", (table_id, branch))
            return
        query = """
            INSERT INTO snapshot_pointer AS p (table_id, branch, snapshot_id, snapshot_uuid, pointed_at) VALUES (%s, %s, %s, %s, now())
            ON CONFLICT (table_id, branch) DO UPDATE
              SET snapshot_id = excluded.snapshot_id, snapshot_uuid = excluded.snapshot_uuid, counted = false, listed = false,
                  pointed_at = excluded.pointed_at
        """
        self._conn.execute(query, (table_id, branch, row.snapshot_id, row.snapshot_uuid))

    def remove(self, table_id: UUID, branch: str, *, above: int) -> list[SnapshotRow]:
        """Forget the snapshots with larger ids; returns them."""
        self._conn.later(IN_ORDER, {"table": table_id, "branch": branch, "above": above})
        query = f"DELETE FROM table_snapshot s WHERE table_id = %s AND branch = %s AND snapshot_id > %s RETURNING {SNAPSHOT_COLUMNS}"  # noqa: S608
        return self._rows(query, (table_id, branch, above))

    def insert(self, table_id: UUID, branch: str, row: SnapshotRow) -> None:
        """Add a snapshot that was decided before."""
        query = """
            INSERT INTO table_snapshot (table_id, branch, snapshot_id, snapshot_uuid, body, published, decided_at)
            VALUES (%s, %s, %s, %s, %s, %s, %s)
        """
        values = (row.snapshot_id, row.snapshot_uuid, Jsonb(dict(row.body)), row.published, row.decided_at)
        self._conn.execute(query, (table_id, branch, *values))

    def forget(self, table_id: UUID, branch: str, *, below: int) -> None:
        """Forget expired snapshots but the last of them; never the one the branch points at."""
        query = """
            WITH gone AS (
                DELETE FROM table_snapshot s WHERE table_id = %(table)s AND branch = %(branch)s AND snapshot_id < %(below)s
                  AND snapshot_id <> (SELECT snapshot_id FROM snapshot_pointer p WHERE p.table_id = %(table)s AND p.branch = %(branch)s)
                RETURNING table_id, branch, snapshot_id, body
            )
            INSERT INTO expired_snapshot (table_id, branch, snapshot_id, body)
            SELECT table_id, branch, snapshot_id, body FROM gone ORDER BY snapshot_id DESC LIMIT 1
            ON CONFLICT (table_id, branch) DO UPDATE SET snapshot_id = excluded.snapshot_id, body = excluded.body
        """
        self._conn.execute(query, {"table": table_id, "branch": branch, "below": below})

    def last_expired(self, table_id: UUID, branch: str) -> Mapping[str, Any] | None:
        """The snapshot that expired last; None where none has since that is kept."""
        query = "SELECT body FROM expired_snapshot WHERE table_id = %s AND branch = %s"
        row = self._conn.execute(query, (table_id, branch)).fetchone()
        return None if row is None else row[0]

    def tables_told_otherwise(self, words: Sequence[str]) -> list[tuple[UUID, str, str, str]]:
        """Tables and branches with snapshots or tags whose operation is none of these: id, database, name, branch."""
        query = """
            SELECT DISTINCT t.table_id, t.database, t.name, o.branch FROM sluice_table t JOIN (
                SELECT table_id, branch FROM table_snapshot WHERE body ->> 'operation' <> ALL(%(words)s)
                UNION SELECT table_id, branch FROM table_tag WHERE snapshot ->> 'operation' <> ALL(%(words)s)
            ) o ON o.table_id = t.table_id ORDER BY t.database, t.name, o.branch
        """
        return self._conn.execute(query, {"words": list(words)}).fetchall()

    def told_otherwise(self, table_id: UUID, branch: str, words: Sequence[str], *, most: int) -> list[SnapshotRow]:
        """The newest snapshots whose operation is none of these."""
        query = f"""
            SELECT {SNAPSHOT_COLUMNS} FROM table_snapshot s WHERE table_id = %s AND branch = %s AND body ->> 'operation' <> ALL(%s)
            ORDER BY snapshot_id DESC LIMIT %s
        """  # noqa: S608
        return self._rows(query, (table_id, branch, list(words), most))

    def tell(self, table_id: UUID, branch: str, *, snapshot_id: int, body: Mapping[str, Any]) -> None:
        """Spell a snapshot in another way."""
        query = "UPDATE table_snapshot SET body = %s WHERE table_id = %s AND branch = %s AND snapshot_id = %s"
        self._conn.execute(query, (Jsonb(dict(body)), table_id, branch, snapshot_id))
