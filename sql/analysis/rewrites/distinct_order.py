"""ORDER BY of what SELECT DISTINCT has computed: Spark looks for its columns among those that are selected, and finds none."""

from __future__ import annotations

from sqlglot import exp

from sql.analysis.functions import TABLE_FUNCTIONS


def order_by_places(tree: exp.Expr) -> None:
    """Let each ORDER BY of a SELECT DISTINCT name what stands in its list, word by word, by its place there."""
    for select in tree.find_all(exp.Select):
        if select.args.get("distinct") and (order := select.args.get("order")) is not None and not any(map(_is_many, select.expressions)):
            for term in order.expressions:
                _by_place(term, select)


def source_names(select: exp.Select) -> set[str]:
    """By which names columns tell of which table of FROM and its joins they are."""
    from_ = select.args.get("from_")
    sources = [] if from_ is None else [from_.this, *(join.this for join in select.args.get("joins") or ())]
    return {source.alias_or_name for source in sources}


def _by_place(term: exp.Expr, select: exp.Select) -> None:
    wanted, columns = term.this, select.expressions
    if isinstance(wanted.unnest(), exp.Literal):
        return  # a place already, which it is in parentheses, too
    tables = {name.lower() for name in source_names(select)}
    # What stands before a dot is a table of FROM, or else a column that has fields.
    first = {(column.parts[0].name.lower(), bool(column.table)) for column in wanted.find_all(exp.Column)}
    outside = {name for name, is_qualified in first if not (is_qualified and name in tables)}
    if not outside.isdisjoint(column.alias_or_name.lower() for column in columns):
        return  # what columns that are selected tell
    for place, column in enumerate(columns, 1):
        if column.unalias().unnest() == wanted.unnest():
            wanted.replace(exp.Literal.number(place))
            return


def _is_many(column: exp.Expr) -> bool:
    """Whether it may stand for other than one column."""
    made = column.unalias()
    return column.is_star or isinstance(column, exp.Aliases) or (isinstance(made, exp.Anonymous) and made.name.lower() in TABLE_FUNCTIONS)
