"""Who may do what: resources, accesses and grants in the Paimon REST protocol's own words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

from model.errors import InvalidGrant, nearest
from model.identifier import Identifier
from model.text.sql_text import quote

ADMIN = "admin"
"""The role that may do everything; it can be given and taken, not made or dropped."""
PUBLIC = "public"
"""The role every caller has."""
MAX_NAME = 128
"""Longest name of a principal, as the protocol's clients check it."""


class Access(StrEnum):
    """What a grant allows."""

    ALL = "ALL"
    CREATEDATABASE = "CREATEDATABASE"
    DESCRIBE = "DESCRIBE"
    ALTER = "ALTER"
    DROP = "DROP"
    CREATETABLE = "CREATETABLE"
    CREATEFUNCTION = "CREATEFUNCTION"
    CREATEVIEW = "CREATEVIEW"
    LIST = "LIST"
    SELECT = "SELECT"
    UPDATE = "UPDATE"
    """Paimon's word for adding rows; SQL writes INSERT, too."""
    DELETE = "DELETE"
    """Taking live rows or history away: a word of our own."""
    PURGE = "PURGE"
    """Removing for good what a drop would keep for a while: a word of our own."""
    GRANT = "GRANT"


class ResourceType(StrEnum):
    """What a grant is about; the ``…_ALL`` types mean everything inside."""

    CATALOG = "CATALOG"
    CATALOG_ALL = "CATALOG_ALL"
    DATABASE = "DATABASE"
    DATABASE_ALL = "DATABASE_ALL"
    TABLE = "TABLE"
    COLUMN = "COLUMN"
    VIEW = "VIEW"
    FUNCTION = "FUNCTION"


_A, _R = Access, ResourceType
_OBJECT = frozenset({_A.ALL, _A.SELECT, _A.ALTER, _A.DROP, _A.GRANT})
_IN_DATABASE = frozenset({_A.DESCRIBE, _A.ALTER, _A.DROP, _A.GRANT, _A.CREATETABLE, _A.CREATEVIEW, _A.CREATEFUNCTION, _A.LIST})
ACCESSES: Mapping[ResourceType, frozenset[Access]] = {
    _R.CATALOG: frozenset({_A.ALL, _A.ALTER, _A.DROP, _A.GRANT, _A.CREATEDATABASE}),
    _R.CATALOG_ALL: _IN_DATABASE | {_A.ALL, _A.SELECT, _A.UPDATE, _A.DELETE, _A.PURGE},
    _R.DATABASE: _IN_DATABASE | {_A.ALL},
    _R.DATABASE_ALL: _OBJECT | {_A.UPDATE, _A.DELETE, _A.PURGE},
    _R.TABLE: _OBJECT | {_A.UPDATE, _A.DELETE, _A.PURGE},
    _R.COLUMN: frozenset({_A.SELECT}),
    _R.VIEW: _OBJECT,
    _R.FUNCTION: _OBJECT,
}
"""Which accesses can be granted on which resource (pypaimon 2.1, ``PermissionAccess``, with DELETE and PURGE)."""
_DROPPED = "droppedColumnId"
_OBJECTS = frozenset({_R.TABLE, _R.COLUMN, _R.VIEW, _R.FUNCTION})
_WORDS = {_R.CATALOG_ALL: "everything in the catalog", _R.CATALOG: "the catalog"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The thing a grant is about; `columns` of a table are named beside it."""

    type: ResourceType
    database: str | None = None
    name: str | None = None
    """The table, view or function; empty for a table that `restore --as` of earlier versions left without any."""

    def __post_init__(self) -> None:
        wants_database = self.type not in (_R.CATALOG, _R.CATALOG_ALL)
        if wants_database is not bool(self.database):
            raise InvalidGrant(f"A {self.type} resource {'needs' if wants_database else 'has no'} database.")
        if (self.type in _OBJECTS) is (self.name is None):
            raise InvalidGrant(f"A {self.type} resource {'needs the name of its object' if self.type in _OBJECTS else 'names no object'}.")

    def __str__(self) -> str:
        if self.database is None:
            return _WORDS[self.type]
        if self.type is _R.DATABASE_ALL:
            return f"everything in database {self.database}"
        if self.name is None:
            return f"database {self.database}"
        return f"{'table' if self.type is _R.COLUMN else self.type.lower()} {self.database}.{self.name}"

    def sql(self) -> str:
        """The resource as it stands behind ON."""
        if self.database is None:
            return "ALL IN CATALOG" if self.type is _R.CATALOG_ALL else "CATALOG"
        if self.name is None:
            return f"{'ALL IN ' if self.type is _R.DATABASE_ALL else ''}DATABASE {quote(self.database)}"
        kind = "TABLE" if self.type is _R.COLUMN else self.type
        return f"{kind} {quote(self.database)}.{quote(self.name)}"


CATALOG = Resource(type=_R.CATALOG)
EVERYTHING = Resource(type=_R.CATALOG_ALL)


def database_resource(name: str) -> Resource:
    """A database itself."""
    return Resource(type=_R.DATABASE, database=name)


def inside(name: str) -> Resource:
    """Everything in a database."""
    return Resource(type=_R.DATABASE_ALL, database=name)


def table_resource(table: Identifier) -> Resource:
    """A table, all its branches and system tables included."""
    return Resource(type=_R.TABLE, database=table.database, name=table.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns a COLUMN grant opens: those named, or all but those."""

    names: tuple[str, ...]
    excluded: bool = False

    def __post_init__(self) -> None:
        if not self.names or any(not name.strip() for name in self.names) or len(set(self.names)) != len(self.names):
            raise InvalidGrant("The columns of a grant are names, at least one, each once.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A principal may do something with a resource."""

    resource: Resource
    access: Access
    principal: str
    columns: Columns | None = None
    expires_at: dt.datetime | None = None
    table_id: UUID | None = field(default=None, compare=False)
    """The table it is bound to, whatever that is called; None for what is no table's, and where it is not told."""

    def __post_init__(self) -> None:
        if self.access not in ACCESSES[self.resource.type]:
            known = ", ".join(sorted(ACCESSES[self.resource.type]))
            raise InvalidGrant(f"{self.access} cannot be granted on a {self.resource.type} resource; {known} can.")
        if (self.resource.type is _R.COLUMN) is not (self.columns is not None):
            raise InvalidGrant("A COLUMN resource comes with its columns, and no other resource has any.")
        check_principal(self.principal)

    @property
    def words(self) -> str:
        """What it allows, as GRANT says it."""
        if self.columns is None:
            return self.access.value
        return f"{self.access}{' EXCEPT' if self.columns.excluded else ''} ({', '.join(self.columns.names)})"


def covering(wanted: Resource) -> tuple[Resource, ...]:
    """The resources a grant may be about to reach this one: itself and those that hold it; nothing reaches up."""
    if wanted.type is _R.COLUMN:
        wanted = Resource(type=_R.TABLE, database=wanted.database, name=wanted.name)
    if wanted.database is None:
        return (wanted,)
    if wanted.name is None:
        return (wanted, EVERYTHING)
    return (wanted, inside(wanted.database), EVERYTHING)


def check_principal(name: str) -> None:
    """Raise `InvalidGrant` for a name nobody can have."""
    if not name.strip() or name != name.strip() or len(name) > MAX_NAME or any(ord(c) < 0x20 for c in name):
        raise InvalidGrant(
            f"A principal has a name of 1 to {MAX_NAME} characters without control characters or spaces around it: {name!r}."
        )


def access_of(word: str) -> Access:
    """The access a word means; raises `InvalidGrant`."""
    try:
        return Access(word.upper())
    except ValueError:
        near = nearest(word.upper(), list(Access))
        hint = f" Did you mean {near}?" if near else f" There are {', '.join(Access)}."
        raise InvalidGrant(f"There is no access {word.upper()}.{hint}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A rule about a table's rows (a condition they must meet) or one of its columns (what is shown in its place)."""

    name: str
    column: str | None
    """The masked column; None for a row filter."""
    principals: tuple[str, ...]
    """Users and roles it binds; none means everyone but administrators."""
    sql: str
    """The condition or expression as it was written."""
    rule: Mapping[str, Any]
    """The same as Paimon's clients read it; of a mask whose column was dropped, `dropped`."""

    @property
    def dropped(self) -> int | None:
        """The id that the masked column had which was dropped with its mask: what it held is kept from whom that binds for good."""
        return self.rule.get(_DROPPED)

    def of_dropped(self, column_id: int) -> Policy:
        """The mask once its column, of this id, is dropped: there is nothing left to show in its place."""
        return replace(self, rule={_DROPPED: column_id})

    @property
    def columns(self) -> frozenset[str]:
        """The columns it names: those its rule reads, and the masked one; none where that was dropped."""
        if self.dropped is not None:
            return frozenset()
        return columns_in(self.rule) | (frozenset() if self.column is None else {self.column})

    def binds(self, names: frozenset[str]) -> bool:
        """Whether it holds for a caller of these names."""
        return not self.principals or not names.isdisjoint(self.principals)


def columns_in(rule: Mapping[str, Any]) -> frozenset[str]:
    """The columns a policy's rule reads."""
    if rule.get("kind") == "COMPOUND":
        return frozenset().union(*(columns_in(child) for child in rule["children"]))
    if rule.get("kind") == "LEAF":
        return frozenset({rule["transform"]["fieldRef"]["name"]})
    return frozenset(each["name"] for each in rule.get("inputs", ()) if isinstance(each, dict))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """What of a table one caller sees."""

    columns: frozenset[str] | None = None
    """The readable columns; None means all."""
    filters: tuple[Policy, ...] = ()
    masks: Mapping[str, Policy] = field(default_factory=dict)
    """By column."""

    @property
    def restricted(self) -> bool:
        """Whether anything is kept from the caller."""
        return self.columns is not None or bool(self.filters) or bool(self.masks)

    def unseen(self, columns: Iterable[str]) -> frozenset[str]:
        """Those of a table's columns whose values the caller does not see: they are kept from it, or shown as their masks."""
        return frozenset(name for name in columns if name in self.masks or (self.columns is not None and name not in self.columns))


WHOLE = ReadRules()
"""Nothing is kept from whoever reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token as it is known after it was made: without its secret."""

    name: str
    principal: str
    administrator: bool
    created_at: dt.datetime
    expires_at: dt.datetime | None
