"""Grants and policies: what a caller may do, and what of a table it sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection, errors
from psycopg.types.json import Jsonb

from catalog.connection import CatalogConnection
from model.access import Access, Columns, Grant, Policy, Resource, ResourceType
from model.errors import AccessAlreadyExist, DatabaseNotExist

_OF_TABLE = (ResourceType.TABLE, ResourceType.COLUMN)
_SELECT = """
    SELECT g.resource_type, coalesce(t.database, g.database), coalesce(t.name, g.object), g.access, g.principal, g.columns, g.expires_at,
           g.table_id
    FROM access_grant g LEFT JOIN sluice_table t ON t.table_id = g.table_id LEFT JOIN sluice_database d ON d.name = g.database
    WHERE (g.expires_at IS NULL OR g.expires_at > now())
      AND (g.table_id IS NULL OR t.table_id IS NOT NULL) AND (g.database IS NULL OR d.name IS NOT NULL)
"""
_ON_DROPPED_TABLES = """
    SELECT g.table_id, g.resource_type, t.database, t.name, g.access, g.principal, g.columns, g.expires_at
    FROM access_grant g JOIN table_entry t ON t.table_id = g.table_id AND t.drop_id IS NOT NULL
    WHERE (g.expires_at IS NULL OR g.expires_at > now()) AND g.principal = ANY(%s)
"""
_ON_DROPPED_DATABASES = """
    SELECT g.resource_type, g.database, g.object, g.access, g.principal, g.columns, g.expires_at
    FROM access_grant g JOIN database_entry d ON d.name = g.database AND d.drop_id IS NOT NULL
    WHERE (g.expires_at IS NULL OR g.expires_at > now()) AND g.principal = ANY(%s)
"""
_ORDER = " ORDER BY g.principal, g.resource_type, 2, 3, g.access"


class GrantRepository:
    """Reads and writes ``access_grant`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def put(self, grant: Grant, *, table_id: UUID | None) -> None:
        """Add it, or give an existing one new columns and another end; raises `DatabaseNotExist`."""
        query = """
            INSERT INTO access_grant (resource_type, database, table_id, object, access, principal, columns, expires_at)
            VALUES (%(type)s, %(database)s, %(table)s, %(object)s, %(access)s, %(principal)s, %(columns)s, %(expires)s)
            ON CONFLICT ON CONSTRAINT access_grant_key DO UPDATE SET columns = excluded.columns, expires_at = excluded.expires_at
        """
        columns = grant.columns and Jsonb({"names": list(grant.columns.names), "excluded": grant.columns.excluded})
        values = {
            "type": grant.resource.type.value,
            "database": grant.resource.database if table_id is None else None,
            "table": table_id,
            "object": grant.resource.name if table_id is None else None,
            "access": grant.access.value,
            "principal": grant.principal,
            "columns": columns,
            "expires": grant.expires_at,
        }
        try:
            with self._conn.transaction():
                self._conn.execute(query, values)
        except errors.ForeignKeyViolation as missing:
            raise DatabaseNotExist(grant.resource.database or "") from missing

    def remove(self, resource: Resource, access: Access, principal: str, *, table_id: UUID | None) -> bool:
        """Take it back; False where there was none."""
        query = """
            DELETE FROM access_grant WHERE resource_type = %s AND access = %s AND principal = %s
              AND database IS NOT DISTINCT FROM %s AND table_id IS NOT DISTINCT FROM %s AND object IS NOT DISTINCT FROM %s
        """
        names = (None, table_id, None) if table_id else (resource.database, None, resource.name)
        return self._conn.execute(query, (resource.type.value, access.value, principal, *names)).rowcount > 0

    def forget_object(self, type_: ResourceType, database: str, name: str) -> None:
        """Take away the grants on a view or function that is dropped; those on tables go by themselves."""
        query = "DELETE FROM access_grant WHERE resource_type = %s AND database = %s AND object = %s"
        self._conn.execute(query, (type_.value, database, name))

    def rename_object(self, type_: ResourceType, database: str, name: str, to: str) -> None:
        """Let the grants on a view or function follow its new name."""
        query = "UPDATE access_grant SET object = %s WHERE resource_type = %s AND database = %s AND object = %s"
        self._conn.execute(query, (to, type_.value, database, name))

    def of(self, principals: Iterable[str]) -> list[Grant]:
        """The grants of any of these that have not expired."""
        return self._read(" AND g.principal = ANY(%s)", list(principals))

    def digest(self, principals: Iterable[str]) -> str:
        """Of all that `of` tells of these: another one where any of it changed, a table's name as well."""
        query = f"""
            SELECT count(*), coalesce(sum(hashtextextended(found::text, 0)), 0) FROM ({_SELECT} AND g.principal = ANY(%s)) AS found
        """  # noqa: S608 - the inner query is a literal of this module
        row = self._conn.execute(query, (sorted(principals),)).fetchone()
        assert row is not None
        return f"{row[0]} {row[1]}"

    def on(self, resource: Resource) -> list[Grant]:
        """The grants on exactly this resource."""
        grants = self._read(
            " AND g.resource_type = %s AND coalesce(t.database, g.database) IS NOT DISTINCT FROM %s", resource.type.value, resource.database
        )
        return [grant for grant in grants if grant.resource.name == resource.name]

    def of_objects(self, type_: ResourceType, database: str, name: str | None, principals: Iterable[str]) -> list[Grant]:
        """The grants of any of these on the views or functions of a database, or on one of them."""
        condition: LiteralString = (
            " AND g.resource_type = %s AND g.database = %s AND (%s::text IS NULL OR g.object = %s) AND g.principal = ANY(%s)"
        )
        return self._read(condition, type_.value, database, name, name, list(principals))

    def of_columns(self, table_id: UUID) -> list[Grant]:
        """The grants on columns of a table."""
        return self._read(" AND g.table_id = %s AND g.resource_type = %s", table_id, ResourceType.COLUMN.value)

    def all(self) -> list[Grant]:
        """Every grant that has not expired."""
        return self._read("")

    def of_dropped_tables(self, principals: Iterable[str]) -> dict[UUID, list[Grant]]:
        """The grants of any of these on dropped tables that are kept, by table; named as the catalog's rows name them."""
        grants: dict[UUID, list[Grant]] = {}
        for table_id, *row in self._conn.execute(_ON_DROPPED_TABLES, (list(principals),)).fetchall():
            grants.setdefault(table_id, []).append(_grant(*row))
        return grants

    def of_dropped_databases(self, principals: Iterable[str]) -> list[Grant]:
        """The grants of any of these on dropped databases that are kept; named as the catalog's rows name them."""
        return [_grant(*row) for row in self._conn.execute(_ON_DROPPED_DATABASES, (list(principals),)).fetchall()]

    def _read(self, condition: LiteralString, *values: object) -> list[Grant]:
        return [_grant(*row) for row in self._conn.execute(_SELECT + condition + _ORDER, values).fetchall()]


def _grant(  # noqa: PLR0913 - the columns of a row
    type_: str,
    database: str | None,
    name: str | None,
    access: str,
    principal: str,
    columns: Any,
    expires_at: Any,
    table_id: UUID | None = None,
) -> Grant:
    return Grant(
        resource=Resource(type=ResourceType(type_), database=database, name=name),
        access=Access(access),
        principal=principal,
        columns=Columns(names=tuple(columns["names"]), excluded=columns["excluded"]) if columns else None,
        expires_at=expires_at,
        table_id=table_id,
    )


_NAMES_COLUMNS = """
    SELECT EXISTS (SELECT 1 FROM table_policy WHERE table_id = %(table)s)
           OR EXISTS (SELECT 1 FROM access_grant WHERE table_id = %(table)s AND resource_type = %(column)s)
"""


def _names_columns(table_id: UUID) -> dict[str, Any]:
    return {"table": table_id, "column": ResourceType.COLUMN.value}


class PolicyRepository:
    """Reads and writes ``table_policy`` inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def create(self, table_id: UUID, policy: Policy) -> None:
        """Add it; raises `AccessAlreadyExist`."""
        query = "INSERT INTO table_policy (table_id, name, column_name, principals, sql, rule) VALUES (%s, %s, %s, %s, %s, %s)"
        try:
            with self._conn.transaction():
                values = (table_id, policy.name, policy.column, list(policy.principals), policy.sql, Jsonb(dict(policy.rule)))
                self._conn.execute(query, values)
        except errors.UniqueViolation as clash:
            raise AccessAlreadyExist(f"The table has a policy named {policy.name}.") from clash

    def name_columns(self, table_id: UUID) -> bool:
        """Whether a table has a policy, or a grant on its columns."""
        row = self._conn.execute(_NAMES_COLUMNS, _names_columns(table_id)).fetchone()
        return row is not None and bool(row[0])

    def names_columns_ahead(self, table_id: UUID) -> Callable[[], bool]:
        """The same, asked with the next statement; what is returned tells it then."""
        cursor = self._conn.ahead(_NAMES_COLUMNS, _names_columns(table_id))
        return lambda: bool((cursor.fetchone() or (False,))[0])

    def of(self, table_id: UUID) -> list[Policy]:
        """A table's policies, by name."""
        query = "SELECT name, column_name, principals, sql, rule FROM table_policy WHERE table_id = %s ORDER BY name"
        return [
            Policy(name=name, column=column, principals=tuple(principals), sql=sql, rule=rule)
            for name, column, principals, sql, rule in self._conn.execute(query, (table_id,)).fetchall()
        ]

    def binding(self, names: Collection[str], *, of_rows: bool = False) -> dict[tuple[str, str], UUID]:
        """Each table with a policy that binds a caller of these names, with ``of_rows`` a row policy: its id by database and name."""
        query = """
            SELECT DISTINCT t.database, t.name, t.table_id FROM table_policy p JOIN sluice_table t USING (table_id)
            WHERE (cardinality(p.principals) = 0 OR p.principals && %s::text[]) AND (p.column_name IS NULL OR NOT %s)
        """
        return {(database, name): table_id for database, name, table_id in self._conn.execute(query, (sorted(names), of_rows))}

    def naming(self, *principals: str) -> list[tuple[str, str, str]]:
        """The policies that name one of these users or roles, also those of dropped tables: database, table and policy."""
        query = """
            SELECT t.database, t.name, p.name FROM table_policy p JOIN table_entry t USING (table_id)
            WHERE p.principals && %s::text[] ORDER BY 1, 2, 3
        """
        return [(database, table, policy) for database, table, policy in self._conn.execute(query, (list(principals),))]

    def binding_dropped(self, names: Collection[str]) -> set[UUID]:
        """The dropped tables that are kept and have a policy that binds a caller of these names."""
        query = """
            SELECT DISTINCT t.table_id FROM table_policy p JOIN table_entry t USING (table_id)
            WHERE t.drop_id IS NOT NULL AND (cardinality(p.principals) = 0 OR p.principals && %s::text[])
        """
        return {table_id for (table_id,) in self._conn.execute(query, (sorted(names),))}

    def change_rule(self, table_id: UUID, policy: Policy) -> None:
        """Give a policy the rule that it has now."""
        query = "UPDATE table_policy SET rule = %s WHERE table_id = %s AND name = %s"
        self._conn.execute(query, (Jsonb(dict(policy.rule)), table_id, policy.name))

    def drop(self, table_id: UUID, name: str) -> bool:
        """Remove it; False when there was none."""
        return self._conn.execute("DELETE FROM table_policy WHERE table_id = %s AND name = %s", (table_id, name)).rowcount == 1
