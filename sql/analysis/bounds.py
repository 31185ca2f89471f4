"""How many rows a query gives at most, and whether it multiplies them, from the tree alone."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from model.text.whole_number import whole_number
from sql.analysis.windows import window_of

RowsOf = Callable[[exp.Table], int | None]
_GENERATORS = (exp.Explode, exp.Posexplode, exp.Inline, exp.Unnest, exp.Lateral)
_GENERATOR_NAMES = frozenset(
    {
        "explode",
        "explode_outer",
        "posexplode",
        "posexplode_outer",
        "inline",
        "inline_outer",
        "stack",
        "json_tuple",
        "range",
        "variant_explode",
        "variant_explode_outer",
    }
)


def row_bound(tree: exp.Expr, rows_of: RowsOf) -> int | None:
    """At most so many rows, or None where the tree does not tell."""
    match tree:
        case exp.Subquery():
            window = window_of(tree)
            if window is not None and window.kind in ("HOP", "CUMULATE"):  # a row is in several windows
                return None
            return _limited(tree, row_bound(tree.this, rows_of))
        case exp.Values():
            return len(tree.expressions)
        case exp.SetOperation():
            left, right = row_bound(tree.left, rows_of), row_bound(tree.right, rows_of)
            bound = None if left is None or right is None else left + right
            return _limited(tree, bound)
        case exp.Select():
            return _limited(tree, _select(tree, rows_of))
    return None


def _limited(tree: exp.Expr, bound: int | None) -> int | None:
    limit = tree.args.get("limit")
    count = limit.args.get("expression") if limit is not None else None
    rows = whole_number(count.name) if isinstance(count, exp.Literal) and not count.is_string else None
    if rows is None:
        return bound
    return rows if bound is None else min(bound, rows)


def _select(tree: exp.Select, rows_of: RowsOf) -> int | None:
    if _generates(tree):
        return None
    if tree.args.get("group") is None and _aggregates(tree):
        return 1
    source = tree.args.get("from_")
    bound = 1 if source is None else _source(source.this, rows_of)
    for join in tree.args.get("joins") or ():
        other = _source(join.this, rows_of)
        if bound is None or other is None:
            return None
        if str(join.args.get("kind", "")).upper() not in ("SEMI", "ANTI"):
            bound = (bound + 1) * (other + 1)
    # An aggregate not known as one here gives one row even where there is nothing to aggregate.
    return bound if bound is None else max(bound, 1)


def _source(node: exp.Expr, rows_of: RowsOf) -> int | None:
    if node.args.get("joins") or node.args.get("laterals") or node.args.get("pivots"):
        return None
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        return rows_of(node)
    return row_bound(node, rows_of) if isinstance(node, exp.Subquery | exp.Values) else None


def _generates(tree: exp.Select) -> bool:
    if tree.args.get("laterals"):
        return True
    return any(is_generator(node) for projection in tree.expressions for node in projection.find_all(*_GENERATORS, exp.Anonymous))


def is_generator(node: exp.Expr) -> bool:
    """Whether a call makes rows, and maybe several columns, of one value."""
    return isinstance(node, _GENERATORS) or (isinstance(node, exp.Anonymous) and node.name.lower() in _GENERATOR_NAMES)


def _aggregates(tree: exp.Select) -> bool:
    """Whether an aggregate stands outside windows and subqueries; without GROUP BY that makes one row."""
    return any(
        node.find_ancestor(exp.Window, exp.Select) is tree
        for projection in tree.expressions
        for node in projection.find_all(exp.AggFunc)
        if not isinstance(node.parent, exp.Window)
    )


def multiplies(tree: exp.Expr) -> bool:
    """Whether a row of one source may become those of two others' product: joins that compare nothing, or what makes rows of a value.

    Joins that compare columns count where the statement makes rows itself, which may all be equal.
    """
    generators = [node for node in tree.find_all(*_GENERATORS, exp.Anonymous) if _makes_rows(node)]
    of_nothing = any(select.args.get("from_") is None for select in tree.find_all(exp.Select))
    makes_equals = of_nothing or bool(generators or list(tree.find_all(exp.Values))) or any(map(_is_range, tree.find_all(exp.Anonymous)))
    joins = [join for join in tree.find_all(exp.Join) if not isinstance(join.this, exp.Lateral | exp.Unnest)]
    joins = [join for join in joins if str(join.args.get("kind", "")).upper() not in ("SEMI", "ANTI")]
    if makes_equals:
        return len(joins) + len(generators) > 1
    freely = [join for join in joins if not _compares(join)]
    compared = sum(1 for where in tree.find_all(exp.Where) for equal in where.find_all(exp.EQ) if _of_two(equal))
    sides = sum(1 for join in freely if join.side)  # the side that is kept cannot be broadcast, however large the other is
    return sides > 0 or len(freely) - compared > 1


def _makes_rows(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _GENERATOR_NAMES and not _is_range(node)
    return not isinstance(node, exp.Lateral) or isinstance(node.this, exp.Subquery)


def _is_range(node: exp.Expr) -> bool:
    return node.name.lower() == "range"


def _compares(join: exp.Join) -> bool:
    """Whether a join finds the rows of one side by values of the other."""
    if join.args.get("using") or str(join.args.get("method", "")).upper() == "NATURAL":
        return True
    on = join.args.get("on")
    return on is not None and any(_of_two(equal) for equal in on.find_all(exp.EQ, exp.NullSafeEQ))


def _of_two(equal: exp.Expr) -> bool:
    """Whether both sides of an equation are of columns, which are of two tables as far as they tell."""
    sides = [[column.table for column in side.find_all(exp.Column)] for side in (equal.this, equal.expression)]
    first, other = sides
    return bool(first and other) and not (len({*first, *other}) == 1 and first[0])
