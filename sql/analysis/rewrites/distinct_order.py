"""ORDER BY of what SELECT DISTINCT has computed: Spark looks for its columns among those that are selected, and finds none."""

from __future__ import annotations

from sqlglot import exp

from sql.analysis.functions import TABLE_FUNCTIONS


def order_by_places(tree: exp.Expr) -> None:
    """Let each ORDER BY of a SELECT DISTINCT name what stands in its list, word by word, by its place there.

    Where it stands inside a term of the ORDER BY the columns are grouped by instead, which means the same, and of which Spark finds it.
    """
    for select in tree.find_all(exp.Select):
        if select.args.get("distinct") and (order := select.args.get("order")) is not None and not any(map(_is_many, select.expressions)):
            for term in order.expressions:
                _by_place(term, select)
            if any(_has_selected(term.this, select) for term in order.expressions) and not _is_grouped(select):
                places = [exp.Literal.number(place) for place, _ in enumerate(select.expressions, 1)]
                select.set("group", exp.Group(expressions=places))
                select.set("distinct", None)


def source_names(select: exp.Select) -> set[str]:
    """By which names columns tell of which table of FROM and its joins they are."""
    from_ = select.args.get("from_")
    sources = [] if from_ is None else [from_.this, *(join.this for join in select.args.get("joins") or ())]
    return {source.alias_or_name for source in sources}


def _by_place(term: exp.Expr, select: exp.Select) -> None:
    wanted, columns = term.this, select.expressions
    if isinstance(wanted.unnest(), exp.Literal):
        return  # a place already, which it is in parentheses, too
    if not _outside(wanted, select).isdisjoint(_selected_names(select)):
        return  # what columns that are selected tell
    for place, column in enumerate(columns, 1):
        if column.unalias().unnest() == wanted.unnest():
            wanted.replace(exp.Literal.number(place))
            return


def _outside(wanted: exp.Expr, select: exp.Select) -> set[str]:
    """The names in a term by which Spark may find columns that are selected."""
    tables = {name.lower() for name in source_names(select)}
    # What stands before a dot is a table of FROM, or else a column that has fields.
    first = {(column.parts[0].name.lower(), bool(column.table)) for column in wanted.find_all(exp.Column)}
    return {name for name, is_qualified in first if not (is_qualified and name in tables)}


def _selected_names(select: exp.Select) -> set[str]:
    return {column.alias_or_name.lower() for column in select.expressions}


def _has_selected(wanted: exp.Expr, select: exp.Select) -> bool:
    """Whether a term, of which not all columns are selected by name, has a part that is."""
    if isinstance(wanted, exp.Literal) or _outside(wanted, select) <= _selected_names(select):
        return False
    selected = [made for column in select.expressions if not isinstance(made := column.unalias().unnest(), exp.Literal)]
    return any(part in selected for part in wanted.walk() if isinstance(part, exp.Expr))


def _is_grouped(select: exp.Select) -> bool:
    """Whether its rows are made of several, or looked at with others, before those that are alike become one."""
    return any(select.args.get(key) for key in ("group", "having", "qualify")) or select.find(exp.AggFunc, exp.Window) is not None


def _is_many(column: exp.Expr) -> bool:
    """Whether it may stand for other than one column."""
    made = column.unalias()
    return column.is_star or isinstance(column, exp.Aliases) or (isinstance(made, exp.Anonymous) and made.name.lower() in TABLE_FUNCTIONS)
