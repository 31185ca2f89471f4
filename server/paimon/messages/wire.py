"""Names, times and records as the protocol spells them."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catalog.records import DatabaseRow, NamedRow, TableRow
from model.errors import BadRequest, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier
from model.options.masking import masked_all
from server.sql.bodies import member

_BRANCH = "branch_"


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Tell of JSON of another shape than expected as the client's fault."""
    try:
        yield
    except KeyError as missing:
        raise BadRequest(f"{what} lacks the member {missing}.") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise BadRequest(f"{what} is of another shape than the protocol's: {problem}.") from None


def object_name(database: str, name: str) -> Identifier:
    """The table, or the branch of one, that a path names; system tables are the clients' own and exist for no server."""
    parts = name.split("$")
    branch = MAIN_BRANCH
    if len(parts) > 1 and parts[1].startswith(_BRANCH):
        branch = parts.pop(1).removeprefix(_BRANCH)
    if len(parts) > 1 or not branch:
        raise TableNotExist(f"{database}.{name}")
    return Identifier(database, parts[0], branch)


def main_name(database: str, name: str) -> Identifier:
    """The table whose branches a path is about, also where it names one of them."""
    identifier = object_name(database, name)
    return Identifier(identifier.database, identifier.table)


def identifier_of(body: dict[str, Any], *, database: str | None = None) -> Identifier:
    """A name in a body."""
    return Identifier(member(body, "database", str) or database or member(body, "database", str, required=True), _object(body))


def _object(body: dict[str, Any]) -> str:
    return str(member(body, "object", str) or member(body, "table", str) or member(body, "object", str, required=True))


def string_list(body: dict[str, Any], name: str) -> list[str]:
    """A list of strings; none is empty."""
    entries = member(body, name, list) or []
    if not all(isinstance(entry, str) for entry in entries):
        raise BadRequest(f"The member '{name}' must be a list of strings.")
    return list(entries)


def specs(body: dict[str, Any], name: str) -> list[dict[str, str]]:
    """A list of partitions by their keys."""
    entries = member(body, name, list, required=True)
    if not all(isinstance(spec, dict) and all(isinstance(value, str) for value in spec.values()) for spec in entries):
        raise BadRequest(f"The member '{name}' must be a list of objects of strings.")
    return list(entries)


def millis(at: dt.datetime) -> int:
    """A time as the protocol writes it: milliseconds since 1970."""
    return int(at.timestamp() * 1000)


def audit(row: DatabaseRow | TableRow | NamedRow) -> dict[str, object]:
    """Who made and changed it, and when."""
    return {
        "owner": row.owner,
        "createdAt": millis(row.created_at),
        "createdBy": row.created_by,
        "updatedAt": millis(row.updated_at),
        "updatedBy": row.updated_by,
    }


def database_json(row: DatabaseRow, location: str) -> dict[str, object]:
    """A database."""
    options = masked_all(row.options) | ({"comment": row.comment} if row.comment is not None else {})
    return {"id": row.name, "name": row.name, "location": located(location), "options": options, **audit(row)}


def table_json(row: TableRow, *, allowed: Sequence[str], rules_bind: bool = False) -> dict[str, object]:
    """A table, or a branch under its whole name: Java reads the branch from it. Whom rules bind is told to ask for them.

    ``allowedLocations`` is ours, for our own readers; others leave it aside.
    """
    body = row.schema
    schema = {key: body.get(key) for key in ("fields", "partitionKeys", "primaryKeys", "options", "comment")}
    schema["options"] = masked_all(schema["options"] or {}) | ({"query-auth.enabled": "true"} if rules_bind else {})
    return {
        "id": str(row.table_id),
        "database": row.database,
        "name": row.name if row.branch == MAIN_BRANCH else f"{row.name}${_BRANCH}{row.branch}",
        "path": located(row.location),
        "isExternal": row.external,
        "allowedLocations": list(allowed),
        "schemaId": row.schema_id,
        "schema": schema,
        **audit(row),
    }


def shown(body: Mapping[str, Any]) -> dict[str, object]:
    """The body of a view or a function, stars in place of its secrets."""
    return {**body, "options": masked_all(body.get("options") or {})}


def located(location: str) -> str:
    """A location with its scheme."""
    return location if "://" in location else f"file://{location}"
