"""Row filters and column masks: what may be said in them, and the same as Paimon's clients read it.

Only what means the same in Spark, Java Paimon and pypaimon is allowed: their JSON carries booleans, whole numbers and texts,
knows no NOT, and compares NaN in several ways.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from model.errors import InvalidGrant
from model.schema.schema import Schema
from model.schema.types import Field
from sql.analysis.predicates import literal_value

_COMPARED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "VARCHAR"})
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.EQ: "EQUAL",
    exp.NEQ: "NOT_EQUAL",
    exp.LT: "LESS_THAN",
    exp.LTE: "LESS_OR_EQUAL",
    exp.GT: "GREATER_THAN",
    exp.GTE: "GREATER_OR_EQUAL",
}
_FLIPPED = {
    "LESS_THAN": "GREATER_THAN",
    "LESS_OR_EQUAL": "GREATER_OR_EQUAL",
    "GREATER_THAN": "LESS_THAN",
    "GREATER_OR_EQUAL": "LESS_OR_EQUAL",
}
_NAMES = {"UPPER": "UPPER", "LOWER": "LOWER", "CONCAT": "CONCAT", "SUBSTRING": "SUBSTRING", "SUBSTR": "SUBSTRING"}
_ALLOWED = (
    "AND, OR, comparisons of a column with a literal, [NOT] IN, BETWEEN, IS [NOT] NULL and LIKE with % at its ends, "
    "over BOOLEAN, whole-number and STRING columns"
)
_MASKS = "NULL, a text, UPPER(c), LOWER(c), SUBSTRING(c, from[, length]) or CONCAT of texts and STRING columns"


def row_filter(node: exp.Expr, schema: Schema) -> dict[str, Any]:
    """A condition as Paimon's predicate JSON; raises `InvalidGrant` for what it cannot say."""
    return _Conditions(schema).read(node)


class _Conditions:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def read(self, node: exp.Expr) -> dict[str, Any]:
        node = node.unnest()
        if type(node) in _FUNCTIONS:
            return self._comparison(node)
        match node:
            case exp.And() | exp.Or():
                function = "AND" if isinstance(node, exp.And) else "OR"
                return {"kind": "COMPOUND", "function": function, "children": [self.read(node.left), self.read(node.right)]}
            case exp.In(expressions=[_, *_]) if not node.args.get("query"):
                return self._in(node, "IN")
            case exp.Not(this=exp.In(expressions=[_, *_]) as inner) if not inner.args.get("query"):
                return self._in(inner, "NOT_IN")
            case exp.Between() if not node.args.get("symmetric"):
                field = self._field(node.this)
                return _leaf(self._schema, field, "BETWEEN", [self._value(node.args["low"], field), self._value(node.args["high"], field)])
            case exp.Is(expression=exp.Null()):
                return _leaf(self._schema, self._field(node.this, any_type=True), "IS_NULL", [])
            case exp.Not(this=exp.Is(expression=exp.Null()) as inner):
                return _leaf(self._schema, self._field(inner.this, any_type=True), "IS_NOT_NULL", [])
            case exp.Like():
                return self._like(node)
        raise InvalidGrant(f"A row policy cannot say {node.sql('spark')}; it takes {_ALLOWED}.")

    def _field(self, node: exp.Expr, *, any_type: bool = False) -> Field:
        node = node.unnest()
        if not isinstance(node, exp.Column) or node.table or not isinstance(node.this, exp.Identifier):
            raise InvalidGrant(f"A row policy compares a column with a literal; {node.sql('spark')} is no column. It takes {_ALLOWED}.")
        field = self._schema.field(node.name)
        if not any_type and field.type.root not in _COMPARED:
            raise InvalidGrant(f"A row policy cannot compare column {field.name}, which is {field.type.sql()}; it takes {_ALLOWED}.")
        return field

    def _value(self, node: exp.Expr, field: Field) -> object:
        value = literal_value(node, field.type)
        if value is None or not isinstance(value, bool | int | str):
            raise InvalidGrant(
                f"A row policy compares column {field.name} with a literal of type {field.type.sql()}, not {node.sql('spark')}."
            )
        return value

    def _comparison(self, node: exp.Expr) -> dict[str, Any]:
        function = _FUNCTIONS[type(node)]
        left, right = node.args["this"], node.args["expression"]
        if not isinstance(left.unnest(), exp.Column):
            left, right, function = right, left, _FLIPPED.get(function, function)
        field = self._field(left)
        return _leaf(self._schema, field, function, [self._value(right, field)])

    def _in(self, node: exp.In, function: str) -> dict[str, Any]:
        field = self._field(node.this)
        return _leaf(self._schema, field, function, [self._value(value, field) for value in node.expressions])

    def _like(self, node: exp.Like) -> dict[str, Any]:
        field = self._field(node.this)
        pattern = node.expression
        text = pattern.name if isinstance(pattern, exp.Literal) and pattern.is_string else None
        inner = (text or "").strip("%")
        if field.type.root != "VARCHAR" or not inner or text is None or set(inner) & {"%", "_", "\\"} or node.args.get("escape"):
            raise InvalidGrant(f"A row policy cannot say {node.sql('spark')}; it takes {_ALLOWED}.")
        function = {(True, True): "CONTAINS", (True, False): "ENDS_WITH", (False, True): "STARTS_WITH", (False, False): "EQUAL"}
        return _leaf(self._schema, field, function[text.startswith("%"), text.endswith("%")], [inner])


def _reference(schema: Schema, field: Field) -> dict[str, Any]:
    return {"index": schema.field_names.index(field.name), "name": field.name, "type": field.type.to_json()}


def _leaf(schema: Schema, field: Field, function: str, literals: list[object]) -> dict[str, Any]:
    transform = {"name": "FIELD_REF", "fieldRef": _reference(schema, field)}
    return {"kind": "LEAF", "transform": transform, "function": function, "literals": literals}


def mask(node: exp.Expr, column: Field, schema: Schema) -> dict[str, Any]:
    """What is shown in place of a column as Paimon's transform JSON; raises `InvalidGrant` for what it cannot say."""
    node = node.unnest()
    if isinstance(node, exp.Null):
        return {"name": "NULL"}
    if column.type.root != "VARCHAR":
        raise InvalidGrant(f"Column {column.name} is {column.type.sql()} and can be masked by NULL only; STRING columns also by {_MASKS}.")
    if isinstance(node, exp.Literal) and node.is_string:
        return {"name": "CONCAT", "inputs": [node.name]}
    name, arguments = _call(node)
    function = _NAMES.get(name)
    if function is None:
        raise InvalidGrant(f"A masking policy cannot show {node.sql('spark')}; it takes {_MASKS}.")
    if function == "SUBSTRING":
        if len(arguments) not in (2, 3) or any(not isinstance(each, exp.Literal) or not each.name.isdecimal() for each in arguments[1:]):
            raise InvalidGrant(f"SUBSTRING in a masking policy takes a column and whole numbers; it takes {_MASKS}.")
        return {"name": function, "inputs": [_input(arguments[0], schema), *(each.name for each in arguments[1:])]}
    if not arguments or (function in ("UPPER", "LOWER") and len(arguments) != 1):
        raise InvalidGrant(f"A masking policy cannot show {node.sql('spark')}; it takes {_MASKS}.")
    return {"name": function, "inputs": [_input(each, schema) for each in arguments]}


def _call(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    match node:
        case exp.Anonymous():
            return node.name.upper(), list(node.expressions)
        case exp.Substring():
            return "SUBSTRING", [node.args[key] for key in ("this", "start", "length") if node.args.get(key) is not None]
    return "", []


def _input(node: exp.Expr, schema: Schema) -> object:
    node = node.unnest()
    if isinstance(node, exp.Literal) and node.is_string:
        return node.name
    if isinstance(node, exp.Column) and not node.table and isinstance(node.this, exp.Identifier):
        field = schema.field(node.name)
        if field.type.root == "VARCHAR":
            return _reference(schema, field)
    raise InvalidGrant(f"A masking policy cannot read {node.sql('spark')}; it takes {_MASKS}.")
