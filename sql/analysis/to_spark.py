"""A Flink tree as the Spark SQL that means the same."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from model.errors import UnsupportedStatement, UnsupportedType
from model.text.whole_number import whole_number
from sql.analysis.rewrites.cut_casts import BYTES, FINEST, TEXTS, TIMESTAMPS, cut_to, has_required_element, let_fields_be_null, precision
from sql.analysis.rewrites.distinct_order import order_by_places, source_names
from sql.analysis.rewrites.unnest import expand_unnest
from sql.analysis.windows import expand_windows
from sql.dialect import Flink

_WITHOUT_PARENTHESES = frozenset({"LOCALTIME", "LOCALTIMESTAMP"})


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
    order_by_places(tree)
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
    for cast, text in reversed(casts):  # from the inside, while each is still part of the tree
        _rewrite_cast(cast, text)
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


def _shown(cast: exp.Cast) -> str | None:
    """What a cast is called that is a column, and cuts something; None for other casts.

    A time is called as its user wrote it, all else as Spark calls a cast that cuts nothing, which alone earlier versions handed on.
    """
    if not (isinstance(cast.parent, exp.Select) and cast.arg_key == "expressions" and _cut(exp.Placeholder(), cast) is not None):
        return None
    named = cast.copy()
    if precision(cast.to) is None:
        if _is_plain_column(cast.this, cast.parent):
            return str(cast.this.name)
        for type_ in list(named.find_all(exp.DataType)):
            _rewrite_type(type_)
    return generated(named)


def _is_plain_column(node: exp.Expr, select: exp.Select) -> bool:
    """Whether something is a column of a table, and no field of one."""
    if not isinstance(node, exp.Column) or len(node.parts) > 2:
        return False
    return not is_call(node) and (not node.table or node.table in source_names(select))


def _rewrite_cast(cast: exp.Cast, shown: str | None) -> None:
    """Put what cuts around a cast: it goes to the place inside itself, since nothing in a copy would be part of the tree."""
    if _gives_null(cast) and has_required_element(cast.to):
        raise UnsupportedType("TRY_CAST takes no NOT NULL inside an ARRAY or a MAP: what does not fit is NULL there. CAST does.")
    place = exp.Placeholder()
    around = _cut(place, cast)
    if around is None:
        return
    cast.replace(exp.alias_(around, shown, quoted=True, copy=False) if shown is not None else around)
    place.replace(cast)


def _gives_null(cast: exp.Expr | None) -> bool:
    """Whether it is TRY_CAST, also as `try_cast` is written."""
    return isinstance(cast, exp.TryCast) and bool(cast.args.get("safe"))


def _cut(place: exp.Placeholder, cast: exp.Cast) -> exp.Expr | None:
    """`cut_to` of what a cast gives; whether TRY_CAST may give a ROW with NOT NULL is Spark's to tell, as in earlier versions."""
    type_ = cast.to
    if _gives_null(cast):
        type_ = type_.copy()
        for part in type_.find_all(exp.DataType):
            let_fields_be_null(part)
    return cut_to(place, type_)


def _rewrite_type(type_: exp.DataType) -> None:
    if type_.this in TEXTS:
        type_.replace(exp.DataType(this=exp.DType.TEXT))
        return
    if not _gives_null(type_.find_ancestor(exp.Cast)):
        let_fields_be_null(type_)  # Spark would take it from what cannot be NULL alone
    if type_.this in TIMESTAMPS or type_.this in BYTES:
        type_.set("expressions", [])
    elif type_.this == exp.DType.TIME and type_.expressions and (whole_number(type_.expressions[0].name) or 0) > FINEST:
        raise UnsupportedType(f"TIME({type_.expressions[0].name}) is not available in a cast; precisions 0 to {FINEST} are.")
    kind = type_.this
    if isinstance(kind, exp.DType) and kind.name == "USERDEFINED":
        name = str(type_.args.get("kind") or "").upper()
        if name == "BYTES":
            type_.replace(exp.DataType(this=exp.DType.BINARY))
        else:
            raise UnsupportedType(f"There is no type {name or type_.sql('spark')}.")
