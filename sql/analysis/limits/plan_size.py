"""How much larger than its text Spark's plan of a query would be: judged on the tree, before Spark's driver builds it.

A text of a few hundred words can stand for a plan of millions of nodes, which no task's limit and no cancel ends.
"""

from __future__ import annotations

from math import prod

from sqlglot import exp

from model.errors import UnsupportedStatement
from model.schema.lengths import MOST_COLUMNS
from sql.analysis.limits.scopes import innermost_first

MOST_NODES = 100_000
"""That mentions of WITH's queries, and those of views, may add to a statement's own."""
MOST_GROUPING_SETS = 4096
_TABLE = 10
"""Columns a table is taken to have, and whatever else is not written out."""


def bound_plan(tree: exp.Expr) -> None:
    """Raises `UnsupportedStatement` where the plan would be many times as large as the text."""
    sizes: dict[int, int] = {}
    copies: dict[int, int] = {}
    columns: dict[int, int] = {}
    added = {"": 0}
    for node, scope, _ in innermost_first(tree):
        inside = [id(child) for child in node.iter_expressions() if not isinstance(child, exp.With)]
        copied = sum(copies[child] for child in inside)
        cte = scope.named(node) if isinstance(node, exp.Table) else None
        if cte is not None:
            copied += sizes[id(cte)]
            added[cte.alias] = added.get(cte.alias, 0) + sizes[id(cte)]
        elif isinstance(node, exp.Pivot):
            _judged(_pivoted(node), "PIVOT", "name fewer values or aggregates")
        elif isinstance(node, exp.Group):
            _judge_group(node)
        copies[id(node)] = copied
        sizes[id(node)] = 1 + sum(sizes[child] for child in inside) + (sizes[id(cte)] if cte is not None else 0)
        if isinstance(node, exp.CTE):
            scope.finished(node)
        columns[id(node)] = _judged(_columns(node, cte, columns), "*", "name the columns that are needed")
        # Only copies count: what the text itself has is bounded where its words are counted.
        if copied > MOST_NODES:
            raise _multiplied(max(added, key=added.__getitem__))


def _columns(node: exp.Expr, cte: exp.CTE | None, columns: dict[int, int]) -> int:
    """Of what a query or a source gives; of another node one."""
    if isinstance(node, exp.Select):
        return _selected(node, columns)
    if isinstance(node, exp.CTE | exp.SetOperation):
        return columns.get(id(node.this), _TABLE)
    if isinstance(node, exp.Table | exp.Subquery):
        inner = columns.get(id(cte if isinstance(node, exp.Table) else node.this), _TABLE)
        joined = sum(columns.get(id(join.this), _TABLE) for join in node.args.get("joins") or ())
        return inner + joined + sum(_pivoted(pivot) for pivot in node.args.get("pivots") or ())
    return _TABLE if isinstance(node, exp.Values | exp.Lateral | exp.Unnest) else 1


def _selected(select: exp.Select, columns: dict[int, int]) -> int:
    from_ = select.args.get("from_")
    sources = [from_.this] if from_ is not None else []
    sources += [join.this for join in select.args.get("joins") or ()]
    sources += select.args.get("laterals") or ()
    by_name = {source.alias_or_name.lower(): columns.get(id(source), _TABLE) for source in sources}
    whole = sum(columns.get(id(source), _TABLE) for source in sources)
    count = 0
    for column in select.expressions:
        stars = 0
        for star in column.walk(prune=lambda inner: isinstance(inner, exp.Query | exp.Count)):
            if isinstance(star, exp.Star):
                of = star.parent.args.get("table") if isinstance(star.parent, exp.Column) else None
                stars += whole if of is None else by_name.get(of.name.lower(), whole)
        count += stars or 1
    pivots = (pivot for join in select.args.get("joins") or () for pivot in join.args.get("pivots") or ())
    return count + sum(map(_pivoted, pivots))


def _pivoted(pivot: exp.Pivot) -> int:
    if pivot.args.get("unpivot"):
        return 2
    return prod(len(field.expressions) or _TABLE for field in pivot.args.get("fields") or ()) * max(len(pivot.expressions), 1)


def _judge_group(group: exp.Group) -> None:
    """Parts of a GROUP BY multiply each other."""
    sets = 1
    for part in group.expressions:
        sets *= _sets(part, len(part.expressions))
    for kind in ("cube", "rollup", "grouping_sets"):
        for part in group.args.get(kind) or ():
            # GROUP BY a, b WITH CUBE names no columns of its own
            sets *= _sets(part, len(part.expressions) or len(group.expressions)) if isinstance(part, exp.Expr) else 1
    if sets > MOST_GROUPING_SETS:
        raise UnsupportedStatement(
            f"GROUP BY would make more than {MOST_GROUPING_SETS} grouping sets, the most a query has here: CUBE makes two to the power of "
            "its columns. Name the sets that are needed in GROUPING SETS (…).",
            fragment="CUBE" if group.find(exp.Cube) else "ROLLUP",
        )


def _sets(part: exp.Expr, over: int) -> int:
    if isinstance(part, exp.Cube):
        return 1 << min(over, 64)
    if isinstance(part, exp.Rollup):
        return over + 1
    if isinstance(part, exp.GroupingSets):
        return sum(_sets(inner, len(inner.expressions)) for inner in part.expressions) or 1
    return 1


def _judged(count: int, fragment: str, way_out: str) -> int:
    if count > MOST_COLUMNS:
        says = (
            f"{fragment} would make more than {MOST_COLUMNS} columns, the most a query has here (a table counted as {_TABLE}): {way_out}."
        )
        raise UnsupportedStatement(says, fragment=fragment)
    return count


def _multiplied(name: str) -> UnsupportedStatement:
    return UnsupportedStatement(
        f"With every mention of {name} replaced by its query, as Spark does, the statement would be more than {MOST_NODES} words: "
        "write what WITH names into a table, or mention it less often.",
        fragment=name,
    )
