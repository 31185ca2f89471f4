"""A Flink tree as the Spark SQL that means the same."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from model.errors import UnsupportedStatement, UnsupportedType
from model.text.whole_number import whole_number
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
    for call in list(tree.find_all(exp.Anonymous)):
        _rewrite_call(call)
    for bracket in list(tree.find_all(exp.Bracket)):
        if _is_word(bracket.this, {"MAP"}) and bracket.expressions and len(bracket.expressions) % 2 == 0:
            bracket.replace(exp.Anonymous(this="map", expressions=bracket.expressions))
    for column in list(tree.find_all(exp.Column)):
        if _is_word(column, _WITHOUT_PARENTHESES):
            column.replace(exp.Anonymous(this=column.name))
    for cast in list(tree.find_all(exp.Cast)):
        _rewrite_cast(cast)
    for type_ in list(tree.find_all(exp.DataType)):
        _rewrite_type(type_)
    return tree


def _is_word(node: exp.Expr, words: Collection[str]) -> bool:
    """Whether an unquoted name alone is one of the words that sqlglot takes for a column."""
    return isinstance(node, exp.Column) and len(node.parts) == 1 and not node.this.args.get("quoted") and node.name.upper() in words


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
