"""Tables and the versions of their schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import errors
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.connection import CatalogConnection
from catalog.listing import EVERYTHING, Slice
from catalog.objects.directories import DISCARD
from catalog.records import TableRow, UnpublishedRow
from model.errors import CommitConflict, DatabaseNotExist, TableAlreadyExist, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier

_OF_TABLE = """
    t.table_id, t.database, t.name, t.location, t.external, t.allowed_locations, t.moving_from, t.diverged_at,
    EXISTS (SELECT 1 FROM stale_file f WHERE f.table_id = t.table_id) AS stale,
    t.owner, t.created_at, t.created_by, t.updated_at, t.updated_by, s.body AS schema
"""
_SELECT = f"""
    SELECT {_OF_TABLE}, 'main' AS branch, t.schema_id, t.published_schema_id
    FROM sluice_table t JOIN table_schema s ON s.table_id = t.table_id AND s.branch = 'main' AND s.schema_id = t.schema_id
"""  # noqa: S608 - the columns are a literal of this module
_SELECT_BRANCHES = f"""
    SELECT {_OF_TABLE}, b.name AS branch, b.schema_id, b.published_schema_id
    FROM sluice_table t JOIN table_branch b ON b.table_id = t.table_id
         JOIN table_schema s ON s.table_id = t.table_id AND s.branch = b.name AND s.schema_id = b.schema_id
"""  # noqa: S608
_NAMED = "WHERE t.database = %(database)s AND t.name = %(table)s"
_OF_TYPE = """
    AND CASE WHEN %(type)s = 'table' THEN coalesce(s.body -> 'options' ->> 'type', 'table') = 'table'
             ELSE s.body -> 'options' ->> 'type' = %(type)s END
"""
_BUT_OF_TYPE = "AND s.body -> 'options' ->> 'type' IS DISTINCT FROM %(but_type)s"


HOLD = "SELECT 1 FROM table_entry WHERE table_id = %s FOR NO KEY UPDATE"
"""Keeps others from changing a table's row; commits go on."""
TOP_SCHEMA = "greatest(t.top_schema_id, (SELECT max(schema_id) FROM table_schema s WHERE s.table_id = t.table_id))"
"""Of a row ``t`` of ``table_entry``."""
KEEP_TOP_SCHEMA = """
    UPDATE table_entry SET top_schema_id = greatest(top_schema_id, (SELECT max(schema_id) FROM table_schema WHERE table_id = %(table)s))
    WHERE table_id = %(table)s
"""
"""Before versions go: what is the highest number there was."""


Numbering = tuple[int, list[str]]
"""The highest number that a version of a table's schema has or had, and the branches besides main, which share the numbers."""
_NUMBERING = f"""
    SELECT coalesce({TOP_SCHEMA}, -1), ARRAY(SELECT name FROM table_branch b WHERE b.table_id = t.table_id)
    FROM table_entry t WHERE t.table_id = %s
"""  # noqa: S608 - a literal of this module


class TableRepository:
    """Reads and writes ``sluice_table`` and ``table_schema`` inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def names(self, database: str, wanted: Slice = EVERYTHING, *, type_: str | None = None, but_type: str | None = None) -> list[str]:
        """The names of a database's tables, in code-point order; ``type_`` is what their option ``type`` says, ``but_type`` what not."""
        if type_ is not None or but_type is not None:
            return [row.name for row in self.rows(database, wanted, type_=type_, but_type=but_type)]
        query = f"SELECT name FROM sluice_table WHERE database = %(database)s{wanted.where('name')} ORDER BY name{wanted.limited()}"  # noqa: S608
        return [name for (name,) in self._conn.execute(query, {"database": database, **wanted.values()}).fetchall()]

    def rows(self, database: str, wanted: Slice = EVERYTHING, *, type_: str | None = None, but_type: str | None = None) -> list[TableRow]:
        """A database's tables, by name."""
        query = f"{_SELECT} WHERE t.database = %(database)s{wanted.where('t.name')}{_OF_TYPE if type_ else ''} "
        query += _BUT_OF_TYPE if but_type else ""
        values = {"database": database, "type": type_, "but_type": but_type, **wanted.values()}
        with self._conn.cursor(row_factory=class_row(TableRow)) as cur:
            return cur.execute(f"{query} ORDER BY t.name{wanted.limited()}", values).fetchall()

    def everywhere(
        self, *, databases: str | None, tables: str | None, after: tuple[str, str] | None, limit: int, but_type: str | None = None
    ) -> list[tuple[str, str]]:
        """Database and name of tables in all databases, by both; two patterns for LIKE, and the last pair of the page before."""
        query = f"""
            SELECT database, name FROM sluice_table t
            JOIN table_schema s ON s.table_id = t.table_id AND s.branch = 'main' AND s.schema_id = t.schema_id
                                   {_BUT_OF_TYPE if but_type else ""}
            WHERE (%(databases)s::text IS NULL OR database LIKE %(databases)s) AND (%(tables)s::text IS NULL OR name LIKE %(tables)s)
              AND (%(after_database)s::text IS NULL OR (database, name) > (%(after_database)s, %(after_name)s))
            ORDER BY database, name LIMIT %(limit)s
        """  # noqa: S608 - a literal of this module
        after_database, after_name = after or (None, None)
        values = {
            "databases": databases, "tables": tables, "after_database": after_database, "after_name": after_name, "limit": limit,
            "but_type": but_type,
        }  # fmt: skip
        return [(database, name) for database, name in self._conn.execute(query, values).fetchall()]

    def find(self, table: Identifier) -> TableRow | None:
        """The table, or the branch of it, or None."""
        return self._find(table, "")

    def require_free(self, table: Identifier) -> None:
        """Raise `TableAlreadyExist` where there is one of that name, and `DatabaseNotExist`; views are another's to look for."""
        query = """
            SELECT EXISTS (SELECT 1 FROM sluice_table WHERE database = %(database)s AND name = %(name)s),
                   EXISTS (SELECT 1 FROM sluice_database WHERE name = %(database)s)
        """
        row = self._conn.execute(query, {"database": table.database, "name": table.table}).fetchone()
        assert row is not None
        if row[0]:
            raise TableAlreadyExist(str(table))
        if not row[1]:
            raise DatabaseNotExist(table.database)

    def by_id(self, table_id: UUID) -> TableRow | None:
        """The table of that id, or None."""
        with self._conn.cursor(row_factory=class_row(TableRow)) as cur:
            return cur.execute(_SELECT + "WHERE t.table_id = %s", (table_id,)).fetchone()

    def _find(self, table: Identifier, lock: str) -> TableRow | None:
        query = (_SELECT if table.branch == MAIN_BRANCH else _SELECT_BRANCHES) + _NAMED
        query += lock if table.branch == MAIN_BRANCH else f" AND b.name = %(branch)s{lock}"
        values = {"database": table.database, "table": table.table, "branch": table.branch}
        with self._conn.cursor(row_factory=class_row(TableRow)) as cur:
            return cur.execute(query, values).fetchone()

    def get(self, table: Identifier) -> TableRow:
        """The table; raises `TableNotExist`."""
        row = self.find(table)
        if row is None:
            raise TableNotExist(str(table))
        return row

    def find_for_commit(self, table: Identifier) -> TableRow | None:
        """The table, or None; it cannot be dropped, renamed or repaired before the transaction ends, while commits and ALTER go on."""
        if table.branch == MAIN_BRANCH:
            return self._find(table, " FOR KEY SHARE OF t")
        query = "SELECT 1 FROM sluice_table WHERE database = %s AND name = %s FOR KEY SHARE"  # first, as all take the two rows
        self._conn.later(query, (table.database, table.table))
        return self._find(table, " FOR KEY SHARE OF t, b")

    def lock(self, table: Identifier) -> TableRow:
        """The table, held against other changes of its row until the transaction ends."""
        query = "SELECT table_id FROM sluice_table WHERE database = %s AND name = %s FOR UPDATE"
        self._conn.later(query, (table.database, table.table))
        return self.get(table)

    def lock_retention(self, table: Identifier) -> tuple[UUID, str] | None:
        """The table's id and location, held against other changes of what is retained; commits, which only read the row, go on.

        None where there is no such table or branch: who waited for the end of a branch would put something on one that is not there.
        """
        query = "SELECT table_id, location FROM sluice_table WHERE database = %s AND name = %s FOR NO KEY UPDATE"
        row = self._conn.execute(query, (table.database, table.table)).fetchone()
        if row is not None and table.branch != MAIN_BRANCH:
            query = "SELECT 1 FROM table_branch WHERE table_id = %s AND name = %s"
            if self._conn.execute(query, (row[0], table.branch)).fetchone() is None:
                return None
        return None if row is None else (row[0], row[1])

    def half_done(self) -> list[TableRow]:
        """Tables with a schema that is not published, files that are to be removed, or a move that an earlier version began.

        After them the branches besides main with a schema that is not published, as of one whose files are still to be written.
        """
        unfinished = """
            WHERE t.moving_from IS NOT NULL OR t.published_schema_id < t.schema_id
               OR EXISTS (SELECT 1 FROM stale_file f WHERE f.table_id = t.table_id)
        """
        with self._conn.cursor(row_factory=class_row(TableRow)) as cur:
            tables = cur.execute(_SELECT + unfinished).fetchall()
            return tables + cur.execute(_SELECT_BRANCHES + "WHERE b.published_schema_id < b.schema_id").fetchall()

    def all(self) -> list[TableRow]:
        """Every table."""
        with self._conn.cursor(row_factory=class_row(TableRow)) as cur:
            return cur.execute(_SELECT + "ORDER BY t.database, t.name").fetchall()

    def create(  # noqa: PLR0913 - the columns of a row
        self,
        table: Identifier,
        table_id: UUID,
        *,
        location: str,
        schema_id: int,
        schema: Mapping[str, Any],
        external: bool = False,
        allowed: Sequence[str] = (),
        by: str | None = None,
    ) -> None:
        """Add it with its first schema; raises `TableAlreadyExist`, also for a view of that name, or `DatabaseNotExist`."""
        query = """
            INSERT INTO sluice_table
              (table_id, database, name, location, schema_id, external, allowed_locations, owner, created_by, updated_by)
            VALUES (%(id)s, %(database)s, %(name)s, %(location)s, %(schema_id)s, %(external)s, %(allowed)s, %(by)s, %(by)s, %(by)s)
        """
        values = {
            "id": table_id, "database": table.database, "name": table.table, "location": location, "schema_id": schema_id,
            "external": external, "allowed": list(allowed), "by": by,
        }  # fmt: skip
        try:
            with self._conn.transaction(), self._conn.together():
                self._conn.execute(query, values)
                # Behind the row, for which whoever makes a view of that name looks behind his.
                view = self._conn.execute("SELECT 1 FROM catalog_view WHERE database = %s AND name = %s", (table.database, table.table))
        except errors.UniqueViolation as clash:
            raise TableAlreadyExist(str(table)) from clash
        except errors.ForeignKeyViolation as missing:
            raise DatabaseNotExist(table.database) from missing
        if view.fetchone() is not None:
            raise TableAlreadyExist(str(table))
        self.add_schema(table_id, MAIN_BRANCH, schema_id, schema)

    def add_schema(self, table_id: UUID, branch: str, schema_id: int, schema: Mapping[str, Any]) -> None:
        """Add one version of a schema."""
        query = "INSERT INTO table_schema (table_id, branch, schema_id, body) VALUES (%s, %s, %s, %s)"
        self._conn.later(query, (table_id, branch, schema_id, Jsonb(dict(schema))))

    def advance_schema(
        self, table_id: UUID, branch: str = MAIN_BRANCH, *, base: int, to: int, schema: Mapping[str, Any], by: str | None = None
    ) -> None:
        """Make the next version current; raises `CommitConflict` when another ALTER was first."""
        values = {"to": to, "id": table_id, "branch": branch, "base": base, "by": by}
        if branch == MAIN_BRANCH:
            query = """
                UPDATE sluice_table SET schema_id = %(to)s, updated_at = now(), updated_by = coalesce(%(by)s, updated_by)
                WHERE table_id = %(id)s AND schema_id = %(base)s
            """
        else:
            query = "UPDATE table_branch SET schema_id = %(to)s WHERE table_id = %(id)s AND name = %(branch)s AND schema_id = %(base)s"
        if self._conn.execute(query, values).rowcount == 0:
            raise CommitConflict(str(table_id), expected=f"schema {base}")
        self.add_schema(table_id, branch, to, schema)

    def stay(self, table_id: UUID, *, patience_millis: int | None = None) -> None:
        """Keep the table from going until the transaction ends, before rows that belong to it are locked: all take its row first.

        ``patience_millis``: as of `hold`.
        """
        self.wait_for(patience_millis)
        self._conn.later("SELECT 1 FROM table_entry WHERE table_id = %s FOR KEY SHARE", (table_id,))

    def hold(self, table_id: UUID, *, patience_millis: int | None = None) -> None:
        """Keep others from changing the table's row until the transaction ends; commits go on.

        A statement by itself: what waits for the row looks at the rest only after it. ``patience_millis``: how long the transaction waits
        for what others hold; `catalog.waited_in_vain` tells the error of one that did so in vain.
        """
        self.wait_for(patience_millis)
        self._conn.later(HOLD, (table_id,))

    def wait_for(self, patience_millis: int | None) -> None:
        """How long the transaction waits for what others hold, where that is told."""
        if patience_millis is not None:
            self._conn.later(f"SET LOCAL lock_timeout = {int(patience_millis)}".encode())

    def hold_schemas(self, table_id: UUID, branch: str) -> UnpublishedRow | None:
        """What `unpublished_schemas` tells once the table's row is held, as `hold` has it."""
        self.hold(table_id)
        return self.unpublished_schemas(table_id, branch)

    def unpublished_schemas(self, table_id: UUID, branch: str) -> UnpublishedRow | None:
        """The versions of a branch's schema whose files may not be there yet; None where there is no such branch."""
        of = "t" if branch == MAIN_BRANCH else "b"
        query = f"""
            SELECT t.location, {of}.schema_id, {of}.published_schema_id AS published,
                   ARRAY(SELECT s.body FROM table_schema s
                         WHERE s.table_id = t.table_id AND s.branch = %(branch)s
                           AND s.schema_id > {of}.published_schema_id AND s.schema_id <= {of}.schema_id
                         ORDER BY s.schema_id) AS bodies
            FROM sluice_table t LEFT JOIN table_branch b ON b.table_id = t.table_id AND b.name = %(branch)s
            WHERE t.table_id = %(table)s AND {of}.schema_id IS NOT NULL
        """  # noqa: S608 - the parts are literals of this method
        with self._conn.cursor(row_factory=class_row(UnpublishedRow)) as cur:
            return cur.execute(query, {"table": table_id, "branch": branch}).fetchone()

    def numbered_ahead(self, table_id: UUID) -> Callable[[], Numbering]:
        """`numbering`, asked with the next statement; what is returned tells it then."""
        cursor = self._conn.ahead(_NUMBERING, (table_id,))
        return lambda: _numbering(cursor.fetchone())

    def next_schema_id(self, table_id: UUID) -> int:
        """The number of the next version on whichever branch; no other transaction is told one until this one ends.

        No branch has or had a version of that number: files that were written by one that is gone would be read by it.
        """
        self.hold(table_id)
        return self.numbering(table_id)[0] + 1

    def numbering(self, table_id: UUID) -> Numbering:
        """The highest number that a version has or had, and the branches besides main, which share the numbers."""
        return _numbering(self._conn.execute(_NUMBERING, (table_id,)).fetchone())

    def set_schema(self, table_id: UUID, branch: str, schema_id: int, *, published: int) -> None:
        """Make a version current that is older than the present one, or of another branch."""
        if branch == MAIN_BRANCH:
            query = "UPDATE sluice_table SET schema_id = %s, published_schema_id = %s, updated_at = now() WHERE table_id = %s"
            self._conn.execute(query, (schema_id, published, table_id))
        else:
            query = "UPDATE table_branch SET schema_id = %s, published_schema_id = %s WHERE table_id = %s AND name = %s"
            self._conn.execute(query, (schema_id, published, table_id, branch))

    def schema(self, table_id: UUID, schema_id: int, branch: str = MAIN_BRANCH) -> Mapping[str, Any] | None:
        """One version of the schema, or None."""
        query = "SELECT body FROM table_schema WHERE table_id = %s AND branch = %s AND schema_id = %s"
        row = self._conn.execute(query, (table_id, branch, schema_id)).fetchone()
        return None if row is None else dict(row[0])

    def schemas(self, table_id: UUID, branch: str) -> list[tuple[int, Mapping[str, Any]]]:
        """Every version, oldest first."""
        query = "SELECT schema_id, body FROM table_schema WHERE table_id = %s AND branch = %s ORDER BY schema_id"
        return [(int(schema_id), dict(body)) for schema_id, body in self._conn.execute(query, (table_id, branch)).fetchall()]

    def drop_schemas(self, table_id: UUID, branch: str, *, above: int) -> None:
        """Remove the versions above one, whose numbers no others get."""
        self._conn.execute(KEEP_TOP_SCHEMA, {"table": table_id})
        query = "DELETE FROM table_schema WHERE table_id = %s AND branch = %s AND schema_id > %s"
        self._conn.execute(query, (table_id, branch, above))

    def schema_published(self, table_id: UUID, schema_id: int, branch: str = MAIN_BRANCH) -> None:
        """Note that the file of this version and of all before it exist."""
        if branch == MAIN_BRANCH:
            query = "UPDATE sluice_table SET published_schema_id = greatest(published_schema_id, %s) WHERE table_id = %s"
            self._conn.later(query, (schema_id, table_id))
        else:
            query = "UPDATE table_branch SET published_schema_id = greatest(published_schema_id, %s) WHERE table_id = %s AND name = %s"
            self._conn.later(query, (schema_id, table_id, branch))

    def rename(self, table_id: UUID, to: Identifier) -> None:
        """Give it another name."""
        query = "UPDATE sluice_table SET database = %s, name = %s WHERE table_id = %s"
        try:
            with self._conn.transaction():
                self._conn.execute(query, (to.database, to.table, table_id))
        except errors.UniqueViolation as clash:
            raise TableAlreadyExist(str(to)) from clash
        except errors.ForeignKeyViolation as missing:
            raise DatabaseNotExist(to.database) from missing

    def allow(self, table_id: UUID, prefix: str) -> None:
        """Record a place besides its directory where files of a table may lie."""
        query = """
            UPDATE sluice_table SET allowed_locations = allowed_locations || ARRAY[%(prefix)s]
            WHERE table_id = %(id)s AND NOT allowed_locations @> ARRAY[%(prefix)s]
        """
        self._conn.execute(query, {"id": table_id, "prefix": prefix})

    def location(self, table_id: UUID) -> str | None:
        """Where a table lies, also a dropped one that can be brought back; None where there is no such table."""
        row = self._conn.execute("SELECT location FROM table_entry WHERE table_id = %s", (table_id,)).fetchone()
        return None if row is None else row[0]

    def lies_at(self, table_id: UUID, location: str) -> bool:
        """Whether there is such a table, not dropped, and it lies there."""
        query = "SELECT 1 FROM sluice_table WHERE table_id = %s AND location = %s AND moving_from IS NULL"
        return self._conn.execute(query, (table_id, location)).fetchone() is not None

    def settle(self, table_id: UUID, location: str) -> None:
        """Note where the files of a table lie that an earlier version was moving."""
        query = "UPDATE sluice_table SET location = %s, moving_from = NULL WHERE table_id = %s AND moving_from IS NOT NULL"
        self._conn.execute(query, (location, table_id))

    def set_diverged(self, table_id: UUID, path: str) -> str:
        """Mark the table as written past the catalog; returns its mark, the first of all branches: it may tell what nobody finds again."""
        query = "UPDATE sluice_table SET diverged_at = coalesce(diverged_at, %s) WHERE table_id = %s RETURNING diverged_at"
        row = self._conn.execute(query, (path, table_id)).fetchone()
        return path if row is None else str(row[0])

    def clear_diverged(self, table_id: UUID) -> None:
        """Take the mark away."""
        self._conn.execute("UPDATE sluice_table SET diverged_at = NULL WHERE table_id = %s", (table_id,))

    def drop(self, table_id: UUID, location: str | None) -> None:
        """Remove it for good and remember its directory as garbage; None for one whose files are not ours to remove.

        `DropRepository.keep_table` drops one that can be brought back.
        """
        if location is not None:
            self._conn.later(DISCARD, {"location": location, "table": table_id, "branch": MAIN_BRANCH})
        self._conn.later("DELETE FROM sluice_table WHERE table_id = %s", (table_id,))


def _numbering(row: Sequence[Any] | None) -> Numbering:
    return (-1, []) if row is None else (int(row[0]), list(row[1]))
