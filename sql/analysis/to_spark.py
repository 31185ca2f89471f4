"""A Flink tree as the Spark SQL that means the same."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from model.errors import UnsupportedStatement, UnsupportedType
from model.text.whole_number import whole_number
from sql.analysis.text_casts import TEXTS, text_length
from sql.analysis.unnest import expand_unnest
from sql.analysis.windows import expand_windows
from sql.dialect import Flink

_TIMESTAMPS = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME})
_WITHOUT_PARENTHESES = frozenset({"LOCALTIME", "LOCALTIMESTAMP"})
_FINEST = 6
"""Digits of a second that are kept."""


def spark_sql(tree: exp.Expr) -> str:
    """The Spark SQL of a tree, which is not changed. What Spark is given comes from `sql.analysis.allow_list.checked_sql`."""
    return generated(to_spark(tree.copy()))


def generated(tree: exp.Expr) -> str:
    """The text of a tree that is Spark's already; raises `UnsupportedStatement` for what would have to be left out of it."""
    try:
        return tree.sql(dialect=Flink, comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as left_out:
        raise UnsupportedStatement(f"The statement says what is not available here: {left_out}.") from left_out


def to_spark(tree: exp.Expr) -> exp.Expr:
    """Rewrite types and calls Spark spells differently, in place; raises `UnsupportedType` for types it has not."""
    expand_windows(tree)
    expand_unnest(tree)
    for call in list(tree.find_all(exp.Anonymous)):
        _rewrite_call(call)
    for any_ in list(tree.find_all(exp.Any)):
        if isinstance(any_.this, exp.Paren) and not isinstance(any_.parent, exp.Like | exp.ILike):
            # An aggregate; sqlglot would make `any(a) AND b` a search in an array, whose lambda's variable hides columns.
            any_.replace(exp.Anonymous(this="any", expressions=[any_.this.this]))
    for bracket in list(tree.find_all(exp.Bracket)):
        if isinstance(bracket.this, exp.Column) and is_call(bracket.this):
            bracket.replace(exp.Anonymous(this="map", expressions=bracket.expressions))
    for column in list(tree.find_all(exp.Column)):
        if is_call(column):
            column.replace(exp.Anonymous(this=column.name))
    casts = [(cast, _shown(cast)) for cast in tree.find_all(exp.Cast)]
    for cast, shown in reversed(casts):  # from the inside, while each is still part of the tree
        _rewrite_cast(cast, shown)
    for type_ in list(tree.find_all(exp.DataType)):
        _rewrite_type(type_)
    return tree


def is_call(column: exp.Column) -> bool:
    """Whether what sqlglot takes for a column is a call: ``LOCALTIMESTAMP``, and ``MAP`` in ``MAP['a', 1]``; with quotes it is a column."""
    if len(column.parts) > 1 or column.this.args.get("quoted"):
        return False
    if column.name.upper() == "MAP":
        bracket = column.parent
        return (
            isinstance(bracket, exp.Bracket) and column.arg_key == "this" and len(bracket.expressions) % 2 == 0 < len(bracket.expressions)
        )
    return column.name.upper() in _WITHOUT_PARENTHESES


def _rewrite_call(call: exp.Anonymous) -> None:
    """Flink's ROW(…) is a struct, and its TABLE(f(…)) in FROM the table function alone."""
    if call.name.upper() == "ROW":
        call.set("this", "struct")
    elif call.name.upper() == "TABLE" and len(call.expressions) == 1 and isinstance(call.parent, exp.Lateral | exp.Table):
        call.replace(call.expressions[0])


def _precision(type_: exp.DataType) -> int | None:
    if type_.this not in _TIMESTAMPS or not type_.expressions:
        return None
    return whole_number(type_.expressions[0].name)


def _shown(cast: exp.Cast) -> str | None:
    """What a cast to TIMESTAMP(p), CHAR(n) or VARCHAR(n) is called that is a column; None for other casts.

    As its user wrote it, but for texts: views that are stored know those by STRING, as which alone earlier versions handed them on.
    """
    is_text = text_length(cast.to) is not None
    if not (isinstance(cast.parent, exp.Select) and cast.arg_key == "expressions" and (is_text or _precision(cast.to) is not None)):
        return None
    named = cast.copy()
    if is_text:
        named.to.replace(exp.DataType(this=exp.DType.TEXT))
    return generated(named)


def _cut_text(cast: exp.Cast, length: int, shown: str | None) -> None:
    """A cast to VARCHAR(n) cuts off what lies beyond n characters, and one to CHAR(n) also fills up with spaces, which Spark's do not."""
    fills = cast.to.this == exp.DType.CHAR
    place = exp.Placeholder()
    parts = [place, exp.Literal.number(length), *([exp.Literal.string(" ")] if fills else [])]
    _wrap(cast, place, exp.Anonymous(this="rpad" if fills else "left", expressions=parts), shown)


def _wrap(cast: exp.Cast, place: exp.Placeholder, around: exp.Expr, shown: str | None) -> None:
    """Put a call around a cast: the cast itself goes to the place inside, not a copy, of which nothing in it would be part of the tree."""
    cast.replace(exp.alias_(around, shown, quoted=True, copy=False) if shown is not None else around)
    place.replace(cast)


def _rewrite_cast(cast: exp.Cast, shown: str | None) -> None:
    """A cast to TIMESTAMP(p) cuts off what lies beyond p, which Spark's TIMESTAMP does not; one of texts to the length of its type.

    On the clock: `date_trunc` would take a TIMESTAMP for an instant of the session's zone, where some clock times do not exist.
    """
    length = text_length(cast.to)
    if length is not None:
        _cut_text(cast, length, shown)
        return
    precision = _precision(cast.to)
    if precision is None:
        return
    if precision > _FINEST:
        raise UnsupportedType(f"TIMESTAMP({precision}) is not available in a cast; precisions 0 to {_FINEST} are.")
    cast.to.set("expressions", [])
    if precision < _FINEST:
        smallest = exp.Interval(this=exp.Literal.string(f"{10**-precision:.{precision}f}"), unit=exp.var("SECOND"))
        place = exp.Placeholder()
        _wrap(cast, place, exp.Anonymous(this="time_bucket", expressions=[smallest, place]), shown)


def _rewrite_type(type_: exp.DataType) -> None:
    if type_.this in TEXTS:
        type_.replace(exp.DataType(this=exp.DType.TEXT))
        return
    if type_.this in _TIMESTAMPS:
        type_.set("expressions", [])
    elif type_.this == exp.DType.TIME and type_.expressions and (whole_number(type_.expressions[0].name) or 0) > _FINEST:
        raise UnsupportedType(f"TIME({type_.expressions[0].name}) is not available in a cast; precisions 0 to {_FINEST} are.")
    kind = type_.this
    if isinstance(kind, exp.DType) and kind.name == "USERDEFINED":
        name = str(type_.args.get("kind") or "").upper()
        if name == "BYTES":
            type_.replace(exp.DataType(this=exp.DType.BINARY))
        else:
            raise UnsupportedType(f"There is no type {name or type_.sql('spark')}.")
