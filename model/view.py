"""Views and functions as the protocol describes them; what is kept is the JSON their clients wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from model.catalog_errors import DefinitionAlreadyExist, DefinitionNotExist, DialectAlreadyExist, DialectNotExist
from model.options.masking import unmasked
from model.schema.types import Field

OWN_DIALECT = "sluice"
"""The dialect of queries that SQL here reads as they are."""
COLUMNS_OPTION = "sluice.columns"
"""The names that the query of a view with a ``*``, in `OWN_DIALECT`, gave its columns when the view was made, as a JSON list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A query under a name, in one or several dialects of SQL."""

    fields: tuple[Field, ...]
    query: str
    dialects: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the protocol spells it."""
        return {
            "fields": [field.to_json() for field in self.fields],
            "query": self.query,
            "dialects": dict(self.dialects),
            "comment": self.comment,
            "options": dict(self.options),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> View:
        """Read what `to_json` wrote."""
        return cls(
            fields=tuple(Field.from_json(field) for field in body["fields"]),
            query=body["query"],
            dialects=dict(body.get("dialects") or {}),
            comment=body.get("comment"),
            options=dict(body.get("options") or {}),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetViewOption:
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveViewOption:
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateViewComment:
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddDialect:
    dialect: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDialect:
    dialect: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDialect:
    dialect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedefineView:
    """Another query; columns that keep their names keep their comments, and so does the view."""

    view: View


ViewChange = RedefineView | SetViewOption | RemoveViewOption | UpdateViewComment | AddDialect | UpdateDialect | DropDialect


def change_view(view: View, changes: Iterable[ViewChange], *, name: str) -> View:  # noqa: C901 - a case for each change
    """The view after the changes; raises `DialectNotExist` or `DialectAlreadyExist`."""
    options, dialects, comment = dict(view.options), dict(view.dialects), view.comment
    for change in changes:
        if isinstance(change, UpdateDialect | DropDialect) and change.dialect == OWN_DIALECT:  # of whose columns nothing is known
            options.pop(COLUMNS_OPTION, None)
        match change:
            case RedefineView(view=other):
                said = {field.name: field.description for field in view.fields}
                fields = tuple(replace(field, description=said.get(field.name)) for field in other.fields)
                view = replace(view, fields=fields, query=other.query)
                options.pop(COLUMNS_OPTION, None)
                options |= other.options
                dialects = dict(other.dialects)
            case SetViewOption(key=key, value=value):
                options |= unmasked({key: value}, options)
            case RemoveViewOption(key=key):
                options.pop(key, None)
            case UpdateViewComment(comment=text):
                comment = text
            case AddDialect(dialect=dialect, query=query):
                if dialect in dialects:
                    raise DialectAlreadyExist(dialect, name)
                dialects[dialect] = query
            case UpdateDialect(dialect=dialect, query=query):
                if dialect not in dialects:
                    raise DialectNotExist(dialect, name)
                dialects[dialect] = query
            case DropDialect(dialect=dialect):
                if dialects.pop(dialect, None) is None:
                    raise DialectNotExist(dialect, name)
    return replace(view, options=options, dialects=dialects, comment=comment)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFunctionOption:
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFunctionOption:
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFunctionComment:
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddDefinition:
    name: str
    definition: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDefinition:
    name: str
    definition: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDefinition:
    name: str


FunctionChange = SetFunctionOption | RemoveFunctionOption | UpdateFunctionComment | AddDefinition | UpdateDefinition | DropDefinition


def change_function(body: Mapping[str, Any], changes: Iterable[FunctionChange], *, name: str) -> dict[str, Any]:  # noqa: C901 - a case for each change
    """A function's body after the changes; raises `DefinitionNotExist` or `DefinitionAlreadyExist`."""
    options, definitions, comment = dict(body["options"]), dict(body["definitions"]), body["comment"]
    for change in changes:
        match change:
            case SetFunctionOption(key=key, value=value):
                options |= unmasked({key: value}, options)
            case RemoveFunctionOption(key=key):
                options.pop(key, None)
            case UpdateFunctionComment(comment=text):
                comment = text
            case AddDefinition(name=own, definition=definition):
                if own in definitions:
                    raise DefinitionAlreadyExist(own, name)
                definitions[own] = dict(definition)
            case UpdateDefinition(name=own, definition=definition):
                if own not in definitions:
                    raise DefinitionNotExist(own, name)
                definitions[own] = dict(definition)
            case DropDefinition(name=own):
                if definitions.pop(own, None) is None:
                    raise DefinitionNotExist(own, name)
    return {**body, "options": options, "definitions": definitions, "comment": comment}


Views = Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], View]]
"""Gives the views among some names, each behind its database's."""
