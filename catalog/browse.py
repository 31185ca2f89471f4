"""Many tables at a glance: what people look through, each list in one query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from catalog.objects.databases import COMMENT_OF_DATABASE


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSums:
    """A database and what its tables hold together."""

    name: str
    comment: str | None
    tables: int
    views: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """A table, or a view, in a list; a view holds nothing, and its last change stands for its last commit."""

    table_id: UUID
    database: str
    name: str
    kind: str
    comment: str | None
    partition_keys: list[str]
    column_count: int
    bucket: str | None
    snapshot_id: int | None
    committed_millis: int | None
    counted: bool
    """Whether the next three are known of the latest snapshot, and told; a table never written counts as known."""
    record_count: int
    file_size: int
    file_count: int
    found_columns: list[str]
    """Columns whose names match what was searched."""
    total: int
    """Tables and views that match in all."""
    total_views: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """What the catalog holds of a table, on its main branch, without its columns."""

    database: str
    name: str
    options: dict[str, str]
    partitioned: bool
    primary_key: bool
    owner: str | None
    created_millis: int | None
    created_by: str | None
    changed_millis: int | None
    """When its latest snapshot was committed; for a table never written, when its schema was made."""
    updated_by: str | None
    counted: bool
    """Whether the sizes hold for the latest snapshot; those of a table never written do."""
    record_count: int
    file_size: int
    file_count: int
    last_file_millis: int | None
    told: bool = True
    """Whether the caller may know the sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredLease:
    """A table whose maintaining server has gone and that nobody took over yet."""

    database: str
    table: str
    server: str
    lease_until: dt.datetime


_ORDERS: dict[str, LiteralString] = {
    "name": "database, name",
    "rows": "record_count DESC, database, name",
    "size": "file_size DESC, database, name",
    "files": "file_count DESC, database, name",
    "commit": "committed_millis DESC NULLS LAST, database, name",
}
ORDERS = tuple(_ORDERS)
"""What lists of tables can be ordered by."""
_LISTED: LiteralString = """
    SELECT t.table_id, t.database, t.name, coalesce(s.body -> 'options' ->> 'type', 'table') AS kind, s.body ->> 'comment' AS comment,
           ARRAY(SELECT jsonb_array_elements_text(coalesce(s.body -> 'partitionKeys', '[]'))) AS partition_keys,
           jsonb_array_length(s.body -> 'fields') AS column_count, s.body -> 'options' ->> 'bucket' AS bucket, p.snapshot_id,
           (n.body ->> 'timeMillis')::bigint AS committed_millis, u.name IS NULL AND coalesce(p.counted, true) AS counted,
           CASE WHEN u.name IS NULL THEN coalesce(p.record_count, 0) ELSE 0 END AS record_count,
           CASE WHEN u.name IS NULL THEN coalesce(p.file_size, 0) ELSE 0 END AS file_size,
           CASE WHEN u.name IS NULL THEN coalesce(p.file_count, 0) ELSE 0 END AS file_count
    FROM sluice_table t
    JOIN table_schema s ON s.table_id = t.table_id AND s.branch = 'main' AND s.schema_id = t.schema_id
    LEFT JOIN snapshot_pointer p ON p.table_id = t.table_id AND p.branch = 'main'
    LEFT JOIN table_snapshot n ON n.table_id = p.table_id AND n.branch = 'main' AND n.snapshot_id = p.snapshot_id
    LEFT JOIN unnest(%(untold_databases)s::text[], %(untold_names)s::text[]) AS u (database, name)
        ON u.database = t.database AND u.name = t.name
"""
_LISTED_VIEWS: LiteralString = """
    SELECT t.view_id AS table_id, t.database, t.name, 'view' AS kind, t.body ->> 'comment' AS comment, ARRAY[]::text[] AS partition_keys,
           jsonb_array_length(t.body -> 'fields') AS column_count, NULL::text AS bucket, NULL::bigint AS snapshot_id,
           (extract(epoch FROM t.updated_at) * 1000)::bigint AS committed_millis, true AS counted,
           0 AS record_count, 0 AS file_size, 0 AS file_count
    FROM catalog_view t
"""
_SUMMARY: LiteralString = """
    SELECT t.database, t.name, coalesce(s.body -> 'options', '{}') AS options,
           jsonb_array_length(coalesce(s.body -> 'partitionKeys', '[]')) > 0 AS partitioned,
           jsonb_array_length(coalesce(s.body -> 'primaryKeys', '[]')) > 0 AS primary_key, t.owner,
           nullif((f.body ->> 'timeMillis')::bigint, 0) AS created_millis, t.created_by,
           coalesce((n.body ->> 'timeMillis')::bigint, nullif((s.body ->> 'timeMillis')::bigint, 0)) AS changed_millis, t.updated_by,
           coalesce(p.counted, true) AS counted, coalesce(p.record_count, 0) AS record_count, coalesce(p.file_size, 0) AS file_size,
           coalesce(p.file_count, 0) AS file_count, p.last_file_millis
    FROM page t
    JOIN table_schema s ON s.table_id = t.table_id AND s.branch = 'main' AND s.schema_id = t.schema_id
    LEFT JOIN table_schema f ON f.table_id = t.table_id AND f.branch = 'main' AND f.schema_id = 0
    LEFT JOIN snapshot_pointer p ON p.table_id = t.table_id AND p.branch = 'main'
    LEFT JOIN table_snapshot n ON n.table_id = p.table_id AND n.branch = 'main' AND n.snapshot_id = p.snapshot_id
"""
_FOUND: LiteralString = """
    ARRAY(SELECT f ->> 'name' FROM jsonb_array_elements(s.body -> 'fields') f WHERE f ->> 'name' ILIKE %(like)s LIMIT 5)
"""
_MATCHES: LiteralString = """
    (%(database)s::text IS NULL OR t.database = %(database)s)
    AND (%(like)s::text IS NULL OR t.name ILIKE %(like)s OR t.database || '.' || t.name ILIKE %(like)s
         OR (s.body ->> 'fields' ILIKE %(like)s
             AND EXISTS (SELECT 1 FROM jsonb_array_elements(s.body -> 'fields') f WHERE f ->> 'name' ILIKE %(like)s)))
"""


def _of_views(text: LiteralString) -> LiteralString:
    """What is said of a table's schema, said of a view's own body."""
    return text.replace("s.body", "t.body")


class BrowseRepository:
    """Reads over all tables, inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def databases(self) -> list[DatabaseSums]:
        """Every database with its sums, by name."""
        query = f"""
            SELECT d.name, {COMMENT_OF_DATABASE} AS comment, count(t.table_id) AS tables,
                   (SELECT count(*) FROM catalog_view v WHERE v.database = d.name) AS views, coalesce(sum(p.file_size), 0)::bigint AS size
            FROM sluice_database d LEFT JOIN sluice_table t ON t.database = d.name
            LEFT JOIN snapshot_pointer p ON p.table_id = t.table_id AND p.branch = 'main'
            GROUP BY d.name, 2 ORDER BY d.name
        """  # noqa: S608
        with self._conn.cursor(row_factory=class_row(DatabaseSums)) as cur:
            return cur.execute(query).fetchall()

    def summaries(
        self, *, database: str | None = None, table: str | None = None, after: tuple[str, str] | None = None, limit: int
    ) -> list[TableSummary]:
        """Tables by database and name: of one database or one name where they are given, after the last pair of the page before."""
        # The page is cut before anything is joined to it, whatever the planner knows of the tables.
        query = f"""
            WITH page AS MATERIALIZED (
                SELECT * FROM sluice_table t
                WHERE (%(database)s::text IS NULL OR t.database = %(database)s) AND (%(table)s::text IS NULL OR t.name = %(table)s)
                  AND (%(after_database)s::text IS NULL OR (t.database, t.name) > (%(after_database)s, %(after_name)s))
                ORDER BY t.database, t.name LIMIT %(limit)s)
            {_SUMMARY} ORDER BY t.database, t.name
        """  # noqa: S608
        after_database, after_name = after or (None, None)
        values = {
            "database": database, "table": table, "after_database": after_database, "after_name": after_name, "limit": limit,
        }  # fmt: skip
        with self._conn.cursor(row_factory=class_row(TableSummary)) as cur:
            return cur.execute(query, values).fetchall()

    def count_by_type(self) -> dict[str | None, int]:
        """How many tables there are of each `type`; None for those that do not say it."""
        query = """
            SELECT s.body -> 'options' ->> 'type', count(*) FROM sluice_table t
            JOIN table_schema s ON s.table_id = t.table_id AND s.branch = 'main' AND s.schema_id = t.schema_id GROUP BY 1
        """
        return dict(self._conn.execute(query).fetchall())

    def names(self, *, database: str | None, search: str | None) -> list[tuple[str, str, bool]]:
        """Database and name of all tables and views that match, by both, and whether it is a view."""
        query = f"""
            SELECT t.database, t.name, false FROM sluice_table t
            JOIN table_schema s ON s.table_id = t.table_id AND s.branch = 'main' AND s.schema_id = t.schema_id
            WHERE {_MATCHES} UNION ALL SELECT t.database, t.name, true FROM catalog_view t WHERE {_of_views(_MATCHES)} ORDER BY 1, 2
        """  # noqa: S608 - literals of this module
        return [(matched, name, view) for matched, name, view in self._conn.execute(query, _values(database, search))]

    def tables(  # noqa: PLR0913 - what a list is asked for
        self,
        *,
        database: str | None,
        search: str | None,
        order: str,
        offset: int,
        limit: int,
        only: Sequence[tuple[str, str]] | None = None,
        untold: Sequence[tuple[str, str]] = (),
    ) -> list[ListedTable]:
        """A page of the tables and views that match a search over names and columns; ``only`` these, where given.

        ``untold`` are tables whose counts are left out, as of those not counted yet.
        """
        within: LiteralString = "AND (t.database, t.name) IN (SELECT * FROM unnest(%(databases)s::text[], %(names)s::text[]))"
        matches: LiteralString = _FOUND if search else "ARRAY[]::text[]"
        where: LiteralString = f"WHERE {_MATCHES} {within if only is not None else ''}"
        query = f"""
            SELECT *, count(*) OVER () AS total, count(*) FILTER (WHERE kind = 'view') OVER () AS total_views FROM (
                {_LISTED.replace("SELECT ", f"SELECT {matches} AS found_columns, ", 1)} {where}
                UNION ALL
                {_LISTED_VIEWS.replace("SELECT ", f"SELECT {_of_views(matches)} AS found_columns, ", 1)} {_of_views(where)}
            ) found ORDER BY {_ORDERS[order]} OFFSET %(offset)s LIMIT %(limit)s
        """  # noqa: S608
        values: dict[str, Any] = _values(database, search) | {"offset": offset, "limit": limit}
        values |= {"untold_databases": [part for part, _ in untold], "untold_names": [part for _, part in untold]}
        values |= {"databases": [part for part, _ in only or ()], "names": [part for _, part in only or ()]}
        with self._conn.cursor(row_factory=class_row(ListedTable)) as cur:
            return cur.execute(query, values).fetchall()

    def expired_leases(self, *, limit: int) -> list[ExpiredLease]:
        """Tables whose maintaining server did not renew and that nobody has taken over, the longest gone first."""
        query = """
            SELECT t.database, t.name AS table, o.server, o.lease_until
            FROM maintenance_lease l JOIN maintenance_owner o USING (owner) JOIN sluice_table t USING (table_id)
            WHERE o.lease_until <= now() ORDER BY o.lease_until, 1, 2 LIMIT %s
        """
        with self._conn.cursor(row_factory=class_row(ExpiredLease)) as cur:
            return cur.execute(query, (limit,)).fetchall()


def _values(database: str | None, search: str | None) -> dict[str, Any]:
    like = None
    if search:
        escaped = search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        like = f"%{escaped}%"
    return {"database": database, "like": like}
