"""A Flink tree as the Spark SQL that means the same."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from model.errors import UnsupportedStatement, UnsupportedType
from model.text.whole_number import whole_number
from sql.analysis.unnest import expand_unnest
from sql.analysis.windows import expand_windows
from sql.dialect import Flink

_TIMESTAMPS = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ})
_WITHOUT_PARENTHESES = frozenset({"LOCALTIME", "LOCALTIMESTAMP"})
_UNITS = {0: "SECOND", 3: "MILLISECOND", 6: None}


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
    for cast in list(tree.find_all(exp.Cast)):
        _rewrite_cast(cast)
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


def _rewrite_cast(cast: exp.Cast) -> None:
    """A cast to TIMESTAMP(p) cuts off what lies beyond p, which Spark's TIMESTAMP does not."""
    precision = _precision(cast.to)
    if precision is None:
        return
    if precision not in _UNITS:
        raise UnsupportedType(f"TIMESTAMP({precision}) is not available in a cast; precisions 0, 3 and 6 are.")
    cast.to.set("expressions", [])
    written = f"{generated(cast).removesuffix(')')}({precision}))"
    unit = _UNITS[precision]
    if unit is not None:
        cut = exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(unit), cast.copy()])
        exact = exp.Cast(this=cut, to=cast.to.copy())
        is_column = isinstance(cast.parent, exp.Select) and cast.arg_key == "expressions"
        cast.replace(exp.alias_(exact, written, quoted=True) if is_column else exact)  # a column is called what its user wrote


def _rewrite_type(type_: exp.DataType) -> None:
    if type_.this in _TIMESTAMPS:
        type_.set("expressions", [])
    kind = type_.this
    if isinstance(kind, exp.DType) and kind.name == "USERDEFINED":
        name = str(type_.args.get("kind") or "").upper()
        if name == "BYTES":
            type_.replace(exp.DataType(this=exp.DType.BINARY))
        else:
            raise UnsupportedType(f"There is no type {name or type_.sql('spark')}.")
