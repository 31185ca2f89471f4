"""Which part of a query's conditions a table's planner may use to skip files.

A predicate found here only ever narrows what is read; the query keeps all its conditions. It must be implied by every
row that can reach the result, so on the side an outer join fills with NULLs only conditions that a NULL fails count.
A name counts only where Spark surely takes it for the table's column: of one that is kept from the caller there is none for
Spark, which takes ``s.card`` for a part of another relation's column `s`, or for an outer query's. Which files are missing would
tell the hidden values.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import exp

from model.access import ReadRules
from model.predicate import And, Compare, In, IsNull, Op, Or, Predicate, all_of
from model.schema.schema import Schema
from model.schema.types import DataType, DecimalType, LocalZonedTimestampType, TimestampType
from sql.analysis.references import TableReference

_OPS: dict[type[exp.Expr], Op] = {exp.EQ: Op.EQ, exp.NEQ: Op.NE, exp.LT: Op.LT, exp.LTE: Op.LE, exp.GT: Op.GT, exp.GTE: Op.GE}
_FLIPPED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_INTEGERS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
"""With the digits of the DECIMALs that Spark takes for them."""
_MOST_IN = 500


def pushed(reference: TableReference, schema: Schema, rules: ReadRules) -> Predicate | None:
    """What is certain of every row of this mention that matters to the result; None for no restriction.

    Only columns count that the rules show as they are.
    """
    select = reference.node.find_ancestor(exp.Select)
    if select is None or not _is_source_of(reference.node, select) or _is_reshaped(reference.node, select):
        return None
    reader = _Reader(reference, schema, rules.unseen(schema.field_names), alone=_alone(select))
    null_filled = _null_filled(reference.node, select)
    parts: list[Predicate | None] = []
    where = select.args.get("where")
    if where is not None and not _ends_with_its_join(reference.node, select):
        parts += [reader.read(c, rejects_null=null_filled) for c in _conjuncts(where.this)]
    parts += [reader.read(c, rejects_null=False) for c in _join_conditions(reference.node, select)]
    return all_of(*parts)


def _is_source_of(node: exp.Table, select: exp.Select) -> bool:
    """Whether the table stands directly in FROM or JOIN of the query."""
    from_ = select.args.get("from_")
    sources = [from_.this] if from_ is not None else []
    sources += [join.this for join in select.args.get("joins") or ()]
    return any(source is node for source in sources)


def _is_reshaped(node: exp.Table, select: exp.Select) -> bool:
    """Whether the query's conditions see other columns or rows than the table's: ``AS x(b, a)``, PIVOT, TABLESAMPLE, a join inside a join.

    PIVOT is on all that was joined before it, whatever it stands behind.
    """
    alias = node.args.get("alias")
    inner = any(node.args.get(key) for key in ("pivots", "sample", "joins", "laterals"))
    pivoted = any(join.args.get("pivots") or join.this.args.get("pivots") for join in select.args.get("joins") or ())
    return inner or pivoted or (alias is not None and bool(alias.args.get("columns")))


def _alone(select: exp.Select) -> bool:
    return not select.args.get("joins") and not select.args.get("laterals")


def _position(node: exp.Table, select: exp.Select) -> int:
    """Which of the query's joins adds the table; -1 for the one that stands first."""
    return next((at for at, join in enumerate(select.args.get("joins") or ()) if join.this is node), -1)


def _ends_with_its_join(node: exp.Table, select: exp.Select) -> bool:
    """Whether only the ON of its own join knows the table: that of a SEMI or an ANTI join. Behind it the name means something else."""
    at = _position(node, select)
    return at >= 0 and str(select.args["joins"][at].args.get("kind") or "").upper() in ("SEMI", "ANTI")


def _null_filled(node: exp.Table, select: exp.Select) -> bool:
    """Whether some outer join may put NULLs in place of this table's rows."""
    position = _position(node, select)
    for index, join in enumerate(select.args.get("joins") or ()):
        side = str(join.args.get("side") or "").upper()
        if side == "FULL" or (index == position and side == "LEFT") or (index > position and side == "RIGHT"):
            return True
    return False


def _join_conditions(node: exp.Table, select: exp.Select) -> Iterator[exp.Expr]:
    """ON conditions that every row must pass: those of inner joins, and an outer join's for the table whose rows it does not keep.

    Those before its own join do not know the table.
    """
    joins, at = select.args.get("joins") or [], _position(node, select)
    for join in [joins[at]] if _ends_with_its_join(node, select) else joins[max(0, at) :]:
        on = join.args.get("on")
        side = str(join.args.get("side") or "").upper()
        kind = str(join.args.get("kind") or "").upper()
        if on is None or kind == "ANTI":
            continue
        later_outer = any(str(j.args.get("side") or "").upper() in ("FULL",) for j in joins)
        # Rows on the left that match none on the right are not in the result at all.
        alone_on_the_left = side == "RIGHT" and join.this is not node and len(joins) == 1
        if (
            (side == "" and not later_outer and not _null_filled(node, select))
            or (side == "LEFT" and join.this is node)
            or alone_on_the_left
        ):
            yield from _conjuncts(on)


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


class _Reader:
    """Turns conditions on one table's columns and literals into predicates; what it does not understand is None."""

    def __init__(self, reference: TableReference, schema: Schema, unseen: Collection[str], *, alone: bool) -> None:
        self._schema, self._unseen = schema, unseen
        self._alone = alone
        self._alias = reference.node.alias or reference.parts[-1]

    def read(self, condition: exp.Expr, *, rejects_null: bool) -> Predicate | None:
        """The predicate a conjunct means; ``rejects_null`` leaves out conditions a row of NULLs passes."""
        predicate = self._condition(condition)
        return None if rejects_null and predicate is not None and _accepts_null(predicate) else predicate

    def _condition(self, condition: exp.Expr) -> Predicate | None:
        condition = condition.unnest()
        kind = type(condition)
        if kind in _OPS:
            return self._comparison(condition, _OPS[kind])
        match condition:
            case exp.And():
                return all_of(self._condition(condition.left), self._condition(condition.right))
            case exp.Or():
                left, right = self._condition(condition.left), self._condition(condition.right)
                return None if left is None or right is None else Or((left, right))
            case exp.In():
                return self._in(condition)
            case exp.Between():
                return self._between(condition)
            case exp.Is():
                return self._is_null(condition, negated=False)
            case exp.Not(this=exp.Is() as inner):
                return self._is_null(inner, negated=True)
            case exp.Like():
                return self._like(condition)
        return None

    def _column(self, node: exp.Expr) -> tuple[str, DataType] | None:
        node = node.unnest()
        if not isinstance(node, exp.Column) or node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
            return None
        if node.table and node.table != self._alias:
            return None
        if not node.table and not self._alone:
            return None
        field = self._schema.find(node.name)
        return None if field is None or field.name in self._unseen else (field.name, field.type)

    def _comparison(self, condition: exp.Expr, op: Op) -> Predicate | None:
        left, right = condition.args["this"], condition.args["expression"]
        column = self._column(left)
        if column is None:
            column, right, op = self._column(right), left, _FLIPPED[op]
        if column is None:
            return None
        value = literal_value(right, column[1])
        return None if value is None else Compare(column[0], op, value)

    def _in(self, condition: exp.In) -> Predicate | None:
        column = self._column(condition.this)
        values = condition.expressions
        if column is None or not values or len(values) > _MOST_IN or condition.args.get("query") is not None:
            return None
        literals = [literal_value(value, column[1]) for value in values if not isinstance(value, exp.Null)]
        if not literals or any(value is None for value in literals) or not _are_exact_together(values, column[1]):
            return None
        return In(column[0], tuple(literals))

    def _between(self, condition: exp.Between) -> Predicate | None:
        column = self._column(condition.this)
        if column is None or condition.args.get("symmetric"):
            return None
        low, high = literal_value(condition.args["low"], column[1]), literal_value(condition.args["high"], column[1])
        parts = [Compare(column[0], op, value) for op, value in ((Op.GE, low), (Op.LE, high)) if value is not None]
        return all_of(*parts)

    def _is_null(self, condition: exp.Is, *, negated: bool) -> Predicate | None:
        column = self._column(condition.this)
        if column is None or not isinstance(condition.expression, exp.Null):
            return None
        return IsNull(column[0], negated)

    def _like(self, condition: exp.Like) -> Predicate | None:
        column = self._column(condition.this)
        pattern = condition.expression
        if column is None or column[1].root not in ("CHAR", "VARCHAR") or not isinstance(pattern, exp.Literal) or not pattern.is_string:
            return None
        text = pattern.name
        prefix = text.split("%")[0].split("_")[0]
        if not prefix or "\\" in text:
            return None
        return Compare(column[0], Op.STARTS_WITH, prefix)


def _accepts_null(predicate: Predicate) -> bool:
    """Whether a row whose columns are all NULL may pass."""
    match predicate:
        case IsNull(negated=negated):
            return not negated
        case And(parts=parts):
            return all(_accepts_null(part) for part in parts)
        case Or(parts=parts):
            return any(_accepts_null(part) for part in parts)
    return False


_MOST_DIGITS = 38
"""Of a DECIMAL."""
_LONGEST_NUMBER = 400
"""Digits of a number, and its magnitude: a DOUBLE's exponent has three."""


def literal_value(node: exp.Expr, type_: DataType) -> Any:
    """A literal as a value to compare with a column of that type, where that comparison means what Spark's does; else None."""
    node = node.unnest()
    negative = isinstance(node, exp.Neg)
    if negative:
        node = node.this.unnest()
    if isinstance(node, exp.Cast):
        return None if negative else _typed(node, type_)
    if isinstance(node, exp.Boolean):
        return bool(node.this) if type_.root == "BOOLEAN" and not negative else None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return _from_text(node.name, type_) if not negative else None
    return _number(("-" if negative else "") + node.name, type_)


def _number(text: str, type_: DataType) -> Any:
    try:
        value = Decimal(text)
    except ArithmeticError:
        return None
    if len(text) > _LONGEST_NUMBER or abs(value.adjusted()) > _LONGEST_NUMBER:
        return None  # no column holds it, and writing it out, as `int` does, may take hours in which nothing else runs
    if type_.root in _INTEGERS or isinstance(type_, DecimalType):
        if "e" in text.lower():
            if type_.root not in ("TINYINT", "SMALLINT", "INT"):
                return None  # Spark compares as DOUBLE, in which neighbouring large values are equal
        elif not _are_exact(type_, [_digits(text)]):
            return None
        return int(value) if value == value.to_integral_value() and type_.root in _INTEGERS else value
    if type_.root in ("FLOAT", "DOUBLE"):
        return float(value)
    return None


def _digits(text: str) -> tuple[int, int]:
    """How many digits a number without an exponent has before its point, and how many that tell something behind it."""
    whole, _, fraction = text.lstrip("+-").partition(".")
    return len(whole.lstrip("0")), len(fraction.rstrip("0"))


def _are_exact(type_: DataType, numbers: Sequence[tuple[int, int]]) -> bool:
    """Whether Spark compares a column with numbers of so many digits as they are.

    It compares in a DECIMAL that has all digits before the point of either, and of those behind it as many as are left of 38: it rounds the
    others, of the column's values and of the number.
    """
    precision, scale = (type_.precision, type_.scale) if isinstance(type_, DecimalType) else (_INTEGERS[type_.root], 0)
    whole = max([precision - scale, *(before for before, _ in numbers)])
    return whole + max([scale, *(behind for _, behind in numbers)]) <= _MOST_DIGITS


def _are_exact_together(values: Sequence[exp.Expr], type_: DataType) -> bool:
    """The same of all that an IN compares with, which are of one type; a whole number counts there with all digits of its own type."""
    if type_.root not in _INTEGERS and not isinstance(type_, DecimalType):
        return True
    numbers = []
    for value in values:
        for literal in value.find_all(exp.Literal):
            text = literal.name
            if "e" in text.lower():
                return False  # Spark compares with all of them as DOUBLE
            before, behind = _digits(text)
            numbers.append((before if "." in text else max(before, _INTEGERS["INT" if before < 10 else "BIGINT"]), behind))
    return _are_exact(type_, numbers)


def _from_text(text: str, type_: DataType) -> Any:
    if type_.root == "VARCHAR":
        return text
    if type_.root == "DATE":
        return _date(text)
    if isinstance(type_, TimestampType):
        return _timestamp(text)
    return None


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def _timestamp(text: str) -> dt.datetime | None:
    try:
        value = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return value if value.tzinfo is None else None


def _typed(node: exp.Cast, type_: DataType) -> Any:
    """``DATE '…'`` and ``TIMESTAMP '…'`` literals, and CASTs of texts to the column's own kind of type."""
    inner = node.this
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return None
    kind = node.to.this
    if type_.root == "DATE" and kind == exp.DType.DATE:
        return _date(inner.name)
    if isinstance(type_, TimestampType) and not isinstance(type_, LocalZonedTimestampType) and not node.to.expressions:
        if kind in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ):
            return _timestamp(inner.name)
        if kind == exp.DType.DATE and (day := _date(inner.name)) is not None:
            return dt.datetime(day.year, day.month, day.day)
    return None
