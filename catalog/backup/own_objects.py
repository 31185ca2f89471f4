"""What of a Postgres schema is the catalog's: others may share it, and nothing of theirs is read, emptied, moved or dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from psycopg import Connection, sql

TABLES = frozenset({
    "access_grant", "access_role", "access_role_member", "access_token", "audit_log", "catalog_function", "catalog_state", "catalog_view",
    "client_loss", "client_reservation", "client_reservation_of_branch", "compaction_run", "database_entry", "drop_record",
    "dropped_directory", "ended_login", "expired_snapshot", "function_entry", "idempotency_key", "maintenance_lease", "maintenance_mark",
    "maintenance_owner", "pages_key", "quota", "quota_usage", "removed_file", "server", "sluice_database", "sluice_table",
    "snapshot_pointer", "stale_file", "stream_consumer", "stream_job", "table_branch", "table_entry", "table_partition", "table_policy",
    "table_schema", "table_snapshot", "table_tag", "view_entry",
})  # fmt: skip
"""Every table that a revision has made."""
_OTHERS: dict[str, tuple[str, ...]] = {
    "VIEW": ("sluice_database", "sluice_table", "catalog_view", "catalog_function"),
    "SEQUENCE": ("server_number",),
    "FUNCTION": ("announce_snapshot",),
}
KINDS: tuple[LiteralString, ...] = ("VIEW", "TABLE", "SEQUENCE", "FUNCTION")
"""What is dropped before what it needs."""
_VERSION = "alembic_version"
_MARKED = "Sluice"
"""Begins the comment that `migrations` puts on what a revision makes: what a newer version made is known by it."""


@dataclass(frozen=True, slots=True)
class OwnObject:
    """A table, view, sequence or function of the catalog."""

    kind: LiteralString
    name: str

    def of(self, schema: str) -> sql.Composable:
        """Its name in a schema, as statements give it; functions of the catalog have no arguments."""
        name = sql.Identifier(schema, self.name)
        return name + sql.SQL("()") if self.kind == "FUNCTION" else name


def own_tables(conn: Connection) -> list[str]:
    """The catalog's tables that are there, those others refer to first; without that of its revision."""
    query = """
        SELECT c.relname FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname = ANY(%s) ORDER BY 1
    """
    names = [name for (name,) in conn.execute(query, (list(TABLES),))]
    references = """
        SELECT a.relname, b.relname FROM pg_constraint c JOIN pg_class a ON a.oid = c.conrelid JOIN pg_class b ON b.oid = c.confrelid
        WHERE c.contype = 'f' AND a.oid <> b.oid AND a.relnamespace = to_regnamespace(quote_ident(current_schema()))
        AND b.relnamespace = a.relnamespace AND a.relname = ANY(%(names)s) AND b.relname = ANY(%(names)s)
    """
    needs: dict[str, set[str]] = {name: set() for name in names}
    for name, needed in conn.execute(references, {"names": names}):
        needs[name].add(needed)
    ordered: list[str] = []
    while len(ordered) < len(names):
        ordered += [name for name in names if name not in ordered and needs[name] <= set(ordered)]
    return ordered


def own_objects(conn: Connection, schema: str) -> list[OwnObject]:
    """All that is the catalog's in a schema, also of a newer version's; what goes along with a table is not listed."""
    query = """
        SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.relname AS name,
               obj_description(c.oid, 'pg_class') AS told
        FROM pg_class c WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'v', 'S')
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i', 'e')
                        AND d.refclassid IN ('pg_class'::regclass, 'pg_extension'::regclass))
        UNION ALL
        SELECT 'FUNCTION', p.proname, obj_description(p.oid, 'pg_proc') FROM pg_proc p
        WHERE p.pronamespace = %(schema)s::regnamespace AND p.prokind = 'f' AND p.pronargs = 0
        ORDER BY 1, 2
    """
    known: dict[str, frozenset[str] | tuple[str, ...]] = {"TABLE": TABLES | {_VERSION}, **_OTHERS}
    kinds: dict[str, LiteralString] = {kind: kind for kind in KINDS}
    rows = conn.execute(query, {"schema": sql.Identifier(schema).as_string(conn)}).fetchall()
    return [OwnObject(kinds[kind], name) for kind, name, note in rows if name in known[kind] or (note or "").startswith(_MARKED)]
