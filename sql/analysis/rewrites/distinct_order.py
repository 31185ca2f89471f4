"""ORDER BY of what SELECT DISTINCT has computed: Spark looks for its columns among those that are selected, and finds none."""

from __future__ import annotations

from sqlglot import exp

from sql.analysis.functions import TABLE_FUNCTIONS


def order_by_places(tree: exp.Expr) -> None:
    """Let each ORDER BY of a SELECT DISTINCT name what stands in its list, word by word, by its place there."""
    for select in tree.find_all(exp.Select):
        if select.args.get("distinct") and (order := select.args.get("order")) is not None and not any(map(_is_many, select.expressions)):
            for term in order.expressions:
                _by_place(term, select.expressions)


def _by_place(term: exp.Expr, columns: list[exp.Expr]) -> None:
    wanted = term.this
    outside = {column.name.lower() for column in wanted.find_all(exp.Column) if not column.table}
    if isinstance(wanted, exp.Literal) or not outside.isdisjoint(column.alias_or_name.lower() for column in columns):
        return  # a place already, or what columns that are selected tell
    for place, column in enumerate(columns, 1):
        if column.unalias().unnest() == wanted.unnest():
            wanted.replace(exp.Literal.number(place))
            return


def _is_many(column: exp.Expr) -> bool:
    """Whether it may stand for other than one column."""
    made = column.unalias()
    return column.is_star or isinstance(column, exp.Aliases) or (isinstance(made, exp.Anonymous) and made.name.lower() in TABLE_FUNCTIONS)
