"""WHERE conditions as Arrow filters, where Arrow's comparison surely means what Spark's does.

A row is kept only where the condition is true; Arrow's `and`, `or` and `not` follow the same three-valued logic as SQL's.
What differs is taken care of here (a NaN is greater than every number) or left to Spark (collations, zones, CHAR's
padding, comparisons across types whose common type might round).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from model.schema.types import DataType, DecimalType, Field, TimestampType
from sql.local.literals import Kind, LiteralValue, NotLocal, date_of, evaluate, timestamp_of
from table.format.rows.arrow import arrow_type

ColumnOf = Callable[[exp.Column], Field]
_OPERATORS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_MOST_IN = 100
_FLOAT_EXACT = 1 << 24
"""Integers below it are the same number as FLOAT and as DOUBLE."""


class Conditions:
    """Translates conditions over the columns of one table."""

    def __init__(self, column_of: ColumnOf) -> None:
        self._column_of = column_of
        self.columns: set[str] = set()
        """The columns the conditions read."""

    def translate(self, node: exp.Expr) -> pc.Expression:  # noqa: C901 - a case for each expression
        """The filter, or `NotLocal`."""
        match node:
            case exp.Paren():
                return self.translate(node.this)
            case exp.And():
                return self.translate(node.this) & self.translate(node.expression)
            case exp.Or():
                return self.translate(node.this) | self.translate(node.expression)
            case exp.Not():
                return ~self.translate(node.this)
            case exp.Is():
                return self._is_null(node)
            case exp.In():
                return self._in(node)
            case exp.Between():
                return self._between(node)
            case exp.Like():
                return self._like(node)
            case exp.Column():
                return self._boolean(node)
        operator = _OPERATORS.get(type(node))
        if operator is None:
            raise NotLocal
        return self._comparison(node, operator)

    def _column(self, node: exp.Expr) -> Field:
        node = node.unnest()
        if not isinstance(node, exp.Column):
            raise NotLocal
        field = self._column_of(node)
        self.columns.add(field.name)
        return field

    def _comparison(self, node: exp.Expr, operator: str) -> pc.Expression:
        left, right = node.args["this"], node.args["expression"]
        if not isinstance(left.unnest(), exp.Column):
            left, right, operator = right, left, _FLIPPED[operator]
        return compare(self._column(left), operator, evaluate(right.unnest()))

    def _boolean(self, node: exp.Column) -> pc.Expression:
        field = self._column(node)
        if field.type.root != "BOOLEAN":
            raise NotLocal
        return pc.field(field.name)

    def _is_null(self, node: exp.Is) -> pc.Expression:
        if not isinstance(node.expression, exp.Null):
            raise NotLocal
        return pc.field(self._column(node.this).name).is_null()

    def _in(self, node: exp.In) -> pc.Expression:
        values = node.expressions
        if not values or len(values) > _MOST_IN or any(node.args.get(key) for key in node.args if key not in ("this", "expressions")):
            raise NotLocal
        field = self._column(node.this)
        return reduce(or_, [compare(field, "=", evaluate(value.unnest())) for value in values])

    def _between(self, node: exp.Between) -> pc.Expression:
        if any(node.args.get(key) for key in node.args if key not in ("this", "low", "high")):
            raise NotLocal
        field = self._column(node.this)
        low, high = evaluate(node.args["low"].unnest()), evaluate(node.args["high"].unnest())
        return compare(field, ">=", low) & compare(field, "<=", high)

    def _like(self, node: exp.Like) -> pc.Expression:
        """Patterns whose only wildcards are % at their ends."""
        pattern = evaluate(node.expression)
        field = self._column(node.this)
        if field.type.root != "VARCHAR" or pattern.kind is not Kind.STRING or not _has_only_plain_wildcards(pattern.value):
            raise NotLocal
        text: str = pattern.value
        inner = text.strip("%")
        column = pc.field(field.name)
        if not text.startswith("%") and not text.endswith("%"):
            return column == pa.scalar(text)
        if not text.startswith("%"):
            return pc.starts_with(column, inner)
        if not text.endswith("%"):
            return pc.ends_with(column, inner)
        return pc.match_substring(column, inner)


def _has_only_plain_wildcards(pattern: str) -> bool:
    return not set(pattern) & {"_", "\\"} and "%" not in pattern.strip("%")


def compare(field: Field, operator: str, literal: LiteralValue) -> pc.Expression:
    """``column operator literal``, or `NotLocal` where Spark's meaning is not surely the same."""
    value = _comparable(field.type, literal)
    column = pc.field(field.name)
    compared: pc.Expression = _ARROW[operator](column, value)
    if field.type.root in ("FLOAT", "DOUBLE") and operator in (">", ">="):
        return compared | pc.is_nan(column)  # in Spark a NaN is greater than every number
    return compared


_ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda column, value: column == value,
    "<>": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


def _comparable(type_: DataType, literal: LiteralValue) -> pa.Scalar:
    """The literal as a scalar to compare a column of that type with."""
    kind, value = literal.kind, literal.value
    if type_.root in _INTEGERS and kind is Kind.INTEGER and -(1 << 63) <= value < 1 << 63:
        return pa.scalar(value, pa.int64())
    if isinstance(type_, DecimalType) and kind in (Kind.INTEGER, Kind.DECIMAL):
        return _decimal(type_, value)
    if type_.root == "DOUBLE" and kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE):
        return pa.scalar(float(value), pa.float64())
    if type_.root == "FLOAT" and (kind in (Kind.DECIMAL, Kind.DOUBLE) or (kind is Kind.INTEGER and abs(value) < _FLOAT_EXACT)):
        return pa.scalar(float(value), pa.float64())
    if type_.root == "VARCHAR" and kind is Kind.STRING:
        return pa.scalar(value, pa.string())
    if type_.root == "BOOLEAN" and kind is Kind.BOOLEAN:
        return pa.scalar(value, pa.bool_())
    if type_.root == "DATE" and kind in (Kind.DATE, Kind.STRING):
        return pa.scalar(value if isinstance(value, dt.date) else date_of(value), pa.date32())
    if isinstance(type_, TimestampType) and kind in (Kind.TIMESTAMP, Kind.STRING):
        return pa.scalar(value if isinstance(value, dt.datetime) else timestamp_of(value), pa.timestamp("us"))
    raise NotLocal


def _decimal(type_: DecimalType, value: int | Decimal) -> pa.Scalar:
    """A number the column could hold is compared in the column's own type, where nothing rounds."""
    number = Decimal(value)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > type_.scale or len(digits) + exponent > type_.precision - type_.scale:
        raise NotLocal
    return pa.scalar(number, arrow_type(type_))
