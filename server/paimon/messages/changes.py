"""Changes of schemas, views and functions, from the protocol's JSON: each says its kind in ``action``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from model.errors import BadRequest, InvalidSchemaChange, nearest
from model.schema.change import (
    AddColumn,
    ColumnChange,
    DropColumn,
    Nested,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from model.schema.types import parse_type
from model.view import (
    AddDefinition,
    AddDialect,
    DropDefinition,
    DropDialect,
    FunctionChange,
    RemoveFunctionOption,
    RemoveViewOption,
    SetFunctionOption,
    SetViewOption,
    UpdateDefinition,
    UpdateDialect,
    UpdateFunctionComment,
    UpdateViewComment,
    ViewChange,
)
from server.paimon.messages.wire import reading
from server.sql.bodies import member

C = TypeVar("C")
Body = dict[str, Any]


def _text(body: Body, name: str) -> str:
    return str(member(body, name, str, required=True))


def _drop_primary_key(_: Body) -> SchemaChange:
    raise InvalidSchemaChange("There is no primary key to drop: these are append tables, which have none.")


def _column(make: Callable[[Body, str], ColumnChange]) -> Callable[[Body], SchemaChange]:
    """A change of a column, or of a field inside one: ``fieldNames`` is the way to it."""

    def read(body: Body) -> SchemaChange:
        path = member(body, "fieldNames", list, required=True)
        if not path or not all(isinstance(part, str) for part in path):
            raise BadRequest("The member 'fieldNames' must be a list of names, at least one.")
        change = make(body, path[-1])
        return Nested(inside=tuple(path[:-1]), change=change) if len(path) > 1 else change

    return read


def _position(move: Body | None) -> Position | None:
    if move is None:
        return None
    match str(move.get("type", "")).upper():
        case "FIRST":
            return Position(first=True)
        case "LAST":
            return Position()
        case "AFTER":
            return Position(after=_text(move, "referenceFieldName"))
        case "BEFORE":
            return Position(before=_text(move, "referenceFieldName"))
    raise BadRequest(f"A move is of type FIRST, LAST, AFTER or BEFORE, not {move.get('type')!r}.")


def _move_column(body: Body) -> SchemaChange:
    move = member(body, "move", dict, required=True)
    position = _position(move)
    assert position is not None
    return UpdateColumnPosition(name=_text(move, "fieldName"), position=position)


def _add_column(body: Body, name: str) -> ColumnChange:
    return AddColumn(
        name=name,
        type=parse_type(body["dataType"]),
        comment=member(body, "comment", str),
        position=_position(member(body, "move", dict)),
    )


_SCHEMA_CHANGES: dict[str, Callable[[Body], SchemaChange]] = {
    "setOption": lambda body: SetOption(key=_text(body, "key"), value=_text(body, "value")),
    "removeOption": lambda body: RemoveOption(key=_text(body, "key")),
    "updateComment": lambda body: UpdateComment(comment=member(body, "comment", str)),
    "addColumn": _column(_add_column),
    "renameColumn": _column(lambda body, name: RenameColumn(name=name, to=_text(body, "newName"))),
    "dropColumn": _column(lambda _, name: DropColumn(name=name)),
    "updateColumnType": _column(
        lambda body, name: UpdateColumnType(
            name=name, type=parse_type(body["newDataType"]), keep_nullability=bool(member(body, "keepNullability", bool))
        )
    ),
    "updateColumnNullability": _column(
        lambda body, name: UpdateColumnNullability(name=name, nullable=member(body, "newNullability", bool, required=True))
    ),
    "updateColumnComment": _column(lambda body, name: UpdateColumnComment(name=name, comment=member(body, "newComment", str))),
    "updateColumnDefaultValue": _column(
        lambda body, name: UpdateColumnDefault(name=name, default=member(body, "newDefaultValue", str), sent_by_client=True)
    ),
    "updateColumnPosition": _move_column,
    "dropPrimaryKey": _drop_primary_key,
}
_DEFINITIONS = ("sql", "lambda", "file")


def definition_of(sent: object) -> Body:
    """What a function does in one engine; one of an unknown type would keep clients from listing the functions beside it."""
    if not isinstance(sent, dict) or sent.get("type") not in _DEFINITIONS:
        raise BadRequest(f"A definition of a function is an object whose type is {', '.join(_DEFINITIONS)}.")
    return sent


_VIEW_CHANGES: dict[str, Callable[[Body], ViewChange]] = {
    "setOption": lambda body: SetViewOption(key=_text(body, "key"), value=_text(body, "value")),
    "removeOption": lambda body: RemoveViewOption(key=_text(body, "key")),
    "updateComment": lambda body: UpdateViewComment(comment=member(body, "comment", str)),
    "addDialect": lambda body: AddDialect(dialect=_text(body, "dialect"), query=_text(body, "query")),
    "updateDialect": lambda body: UpdateDialect(dialect=_text(body, "dialect"), query=_text(body, "query")),
    "dropDialect": lambda body: DropDialect(dialect=_text(body, "dialect")),
}
_FUNCTION_CHANGES: dict[str, Callable[[Body], FunctionChange]] = {
    "setOption": lambda body: SetFunctionOption(key=_text(body, "key"), value=_text(body, "value")),
    "removeOption": lambda body: RemoveFunctionOption(key=_text(body, "key")),
    "updateComment": lambda body: UpdateFunctionComment(comment=member(body, "comment", str)),
    "addDefinition": lambda body: AddDefinition(name=_text(body, "name"), definition=definition_of(body.get("definition"))),
    "updateDefinition": lambda body: UpdateDefinition(name=_text(body, "name"), definition=definition_of(body.get("definition"))),
    "dropDefinition": lambda body: DropDefinition(name=_text(body, "name")),
}


def schema_changes(body: Body) -> list[SchemaChange]:
    """What an ALTER of a table asks for."""
    return _changes(body, _SCHEMA_CHANGES)


def view_changes(body: Body) -> list[ViewChange]:
    """What an ALTER of a view asks for."""
    return _changes(body, _VIEW_CHANGES)


def function_changes(body: Body) -> list[FunctionChange]:
    """What an ALTER of a function asks for."""
    return _changes(body, _FUNCTION_CHANGES)


def _changes(body: Body, known: dict[str, Callable[[Body], C]]) -> list[C]:
    changes = []
    for change in member(body, "changes", list, required=True):
        if not isinstance(change, dict):
            raise BadRequest("A change must be a JSON object.")
        action = _text(change, "action")
        reader = known.get(action)
        if reader is None:
            near = nearest(action, known)
            hint = f"Did you mean {near}?" if near else f"There are: {', '.join(known)}."
            raise BadRequest(f"There is no change {action!r}. {hint}")
        with reading(f"The change {action}"):
            changes.append(reader(change))
    return changes
