"""``SELECT 1`` and its like: rows of plain literals, which clients send to see whether anybody is there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from model.schema.types import BigIntType, BooleanType, DataType, DecimalType, DoubleType, IntType, NullType, VarCharType
from sql.execution.results import ResultColumn, ResultSet
from sql.local.literals import Kind, LiteralValue, NotLocal, evaluate
from sql.local.scope import limit_of, only_parts
from sql.statements.base import ExecutionContext, LocalStatement

_PARTS = frozenset({"expressions", "limit"})
_PLAIN = (exp.Literal, exp.Neg, exp.Null, exp.Boolean)
"""What says its type by itself; a cast has one that `evaluate` does not keep."""
_INT_BITS, _BIGINT_BITS = 31, 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantRow(LocalStatement):
    """``SELECT literal [AS name], … [LIMIT n]``."""

    columns: Sequence[ResultColumn]
    row: Sequence[Any]
    limit: int | None

    def run(self, context: ExecutionContext) -> ResultSet:
        return ResultSet.of_rows(self.columns, [] if self.limit == 0 else [self.row], is_query=True)


def plan_constants(tree: exp.Select) -> ConstantRow:
    """The statement, with the names and types Spark gives; raises `NotLocal` where it does anything but say literals."""
    if not only_parts(tree, _PARTS):
        raise NotLocal
    constants = [_column(node) for node in tree.expressions]
    return ConstantRow(columns=[column for column, _ in constants], row=[value for _, value in constants], limit=limit_of(tree))


def _column(node: exp.Expr) -> tuple[ResultColumn, Any]:
    plain = node.this if isinstance(node, exp.Alias) else node
    if not isinstance(plain, _PLAIN):
        raise NotLocal
    literal = evaluate(plain)
    name = node.alias if isinstance(node, exp.Alias) else _name(literal)
    return ResultColumn(name, _type(literal)), literal.value


def _name(literal: LiteralValue) -> str:
    """What Spark calls a column without a name, where it is what was written."""
    match literal.kind:
        case Kind.STRING | Kind.INTEGER:
            return str(literal.value)
        case Kind.BOOLEAN:
            return str(literal.value).lower()
        case Kind.NULL:
            return "NULL"
    raise NotLocal


def _type(literal: LiteralValue) -> DataType:
    """The type Spark reads a literal as."""
    value = literal.value
    match literal.kind:
        case Kind.STRING:
            return VarCharType(nullable=False)
        case Kind.INTEGER if -(1 << _INT_BITS) < value < 1 << _INT_BITS:
            return IntType(nullable=False)
        case Kind.INTEGER if -(1 << _BIGINT_BITS) < value < 1 << _BIGINT_BITS:
            return BigIntType(nullable=False)
        case Kind.DECIMAL:
            return _decimal(value)
        case Kind.DOUBLE if math.isfinite(value):
            return DoubleType(nullable=False)
        case Kind.BOOLEAN:
            return BooleanType(nullable=False)
        case Kind.NULL:
            return NullType()
    raise NotLocal


def _decimal(value: Decimal) -> DataType:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        raise NotLocal
    return DecimalType(precision=max(len(digits), -exponent), scale=-exponent, nullable=False)
