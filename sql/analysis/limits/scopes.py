"""The parts of a tree, innermost first, with the names that may be mentioned from each."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

_SOURCES = ("with_", "from_", "joins", "laterals")
"""Arguments of a query that come before what is read from them."""


class Scope:
    """A query around a place, or a WITH: the queries that may be mentioned there are those that were written before."""

    def __init__(self, outer: Scope | None = None, *, is_derived: bool = False) -> None:
        self.outer, self._is_derived = outer, is_derived
        sees_none = outer is not None and (is_derived or outer._is_derived)
        self.around: Scope | None = outer.around if outer is not None and sees_none else outer
        """The query whose columns may be named here, too: not the one that reads from this one."""
        self._named: dict[str, exp.CTE] = {}

    def finished(self, cte: exp.CTE) -> None:
        self._named[cte.alias.lower()] = cte

    def named(self, table: exp.Table) -> exp.CTE | None:
        name, scope = table.name.lower(), self if table.args.get("db") is None else None
        while scope is not None and name not in scope._named:
            scope = scope.outer
        return None if scope is None else scope._named[name]


def innermost_first(tree: exp.Expr) -> Iterator[tuple[exp.Expr, Scope, Scope]]:
    """Every node after those inside it, the scope it stands in and the one of what is inside; what a query reads before its columns."""
    stack: list[tuple[exp.Expr, Scope | None, Scope]] = [(tree, None, Scope())]
    while stack:
        node, inner, scope = stack.pop()
        if inner is not None:
            yield node, scope, inner
            continue
        inside = list(node.iter_expressions())
        is_derived = _is_derived(node)
        is_query = isinstance(node, exp.Select) or node.args.get("with_") is not None
        inner = Scope(scope, is_derived=is_derived) if is_derived or is_query else scope
        if inner is not scope:
            inside.sort(key=lambda child: _SOURCES.index(child.arg_key) if child.arg_key in _SOURCES else len(_SOURCES))
        stack.append((node, inner, scope))
        stack.extend((child, None, inner) for child in reversed(inside))


def _is_derived(node: exp.Expr) -> bool:
    """Whether it is a query in FROM or JOIN, which sees nothing of what is beside it."""
    if not isinstance(node, exp.Subquery) or not isinstance(node.parent, exp.From | exp.Join) or node.arg_key != "this":
        return False
    inside: exp.Expr = node
    while isinstance(inside, exp.Subquery) and (inside is node or not inside.args.get("joins")):
        inside = inside.this
    return isinstance(inside, exp.Select | exp.SetOperation)
