"""Columns of a view's query that have no name in its text: they are given the names by which the view knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sql.analysis.bounds import is_generator
from sql.analysis.to_spark import is_call


@dataclass(frozen=True, slots=True)
class _Named:
    """A query that a WITH has named, and those that it may mention itself."""

    cte: exp.CTE
    known: Mapping[str, _Named]


def name_unnamed(query: exp.Expr, names: Sequence[str]) -> None:
    """Call the columns of a query by these names, in place, where its text names them not; a ``*`` stands for all that others leave.

    What Spark calls such a column depends on its version and on what a cast becomes for it, and a view is to outlive both. Where a ``*``
    stands for several tables of which no text tells how many columns they have, or a column for several, names stay as they are.
    """
    _name(query, names, {})


def _name(query: exp.Expr, names: Sequence[str], known: Mapping[str, _Named]) -> None:
    known = _with_named(query, known)
    while isinstance(query, exp.SetOperation | exp.Subquery):  # whose columns are called as those of the first query
        if query.args.get("by_name"):
            return
        query = query.this
        known = _with_named(query, known)
    if not isinstance(query, exp.Select) or any(_is_several(column) for column in query.selects):
        return
    columns = query.selects
    stars = [at for at, column in enumerate(columns) if column.is_star]
    before, behind = (columns[: stars[0]], columns[stars[-1] + 1 :]) if stars else (columns, [])
    left = len(names) - len(before) - len(behind)
    if left < 0 or (left and not stars):
        return
    for column, name in [*zip(before, names, strict=False), *zip(behind, names[len(names) - len(behind) :], strict=True)]:
        if not (isinstance(column, exp.Alias) or (isinstance(column, exp.Column) and not is_call(column))):
            column.replace(exp.alias_(column.copy(), name, quoted=True, copy=False))
    if len(stars) == 1:
        for source, part in _parts(query, columns[stars[0]], names[len(before) : len(before) + left], known):
            _name_source(source, part, known)


def _with_named(query: exp.Expr, known: Mapping[str, _Named]) -> Mapping[str, _Named]:
    with_ = query.args.get("with_")
    if with_ is None or with_.args.get("recursive"):
        return known
    for cte in with_.expressions:
        known = {**known, cte.alias: _Named(cte, known)}
    return known


def _is_several(column: exp.Expr) -> bool:
    return isinstance(column, exp.Aliases) or is_generator(column)


def _parts(
    query: exp.Select, star: exp.Expr, names: Sequence[str], known: Mapping[str, _Named]
) -> Iterator[tuple[exp.Expr, Sequence[str]]]:
    """The tables for which a ``*`` stands, with the names of each one's columns; none where the text does not tell them apart."""
    listed = star.this if isinstance(star, exp.Column) else star
    joins = query.args.get("joins") or []
    apart = not any(listed.args.values()) and not query.args.get("laterals") and query.args.get("from_") is not None
    if not apart or any(join.args.get("using") or join.method or join.kind in ("SEMI", "ANTI") for join in joins):
        return
    sources = [query.args["from_"].this, *(join.this for join in joins)]
    if isinstance(star, exp.Column):
        sources = [source for source in sources if source.alias_or_name == star.table]
    counts = [_count(source, known) for source in sources]
    if counts.count(None) > 1:
        return
    rest = len(names) - sum(count or 0 for count in counts)
    at = 0
    for source, count in zip(sources, counts, strict=True):
        size = rest if count is None else count
        yield source, names[at : at + size]
        at += size


def _name_source(source: exp.Expr, names: Sequence[str], known: Mapping[str, _Named]) -> None:
    if source.args.get("pivots") or source.alias_column_names:
        return
    if isinstance(source, exp.Subquery):
        _name(source.this, names, known)
    elif (named := _mentioned(source, known)) is not None and not named.cte.alias_column_names:
        _name(named.cte.this, names, named.known)


def _mentioned(source: exp.Expr, known: Mapping[str, _Named]) -> _Named | None:
    plain = isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier) and len(source.parts) == 1
    return known.get(source.name) if plain else None


def _count(source: exp.Expr, known: Mapping[str, _Named]) -> int | None:
    """How many columns a table has, as the text tells; None where it does not."""
    if source.args.get("pivots"):
        return None
    if source.alias_column_names:
        return len(source.alias_column_names)
    if isinstance(source, exp.Subquery):
        return _count_of(source.this)
    named = _mentioned(source, known)
    return None if named is None else len(named.cte.alias_column_names) or _count_of(named.cte.this)


def _count_of(query: exp.Expr) -> int | None:
    columns = query.selects if isinstance(query, exp.Query) else []
    return None if any(column.is_star or _is_several(column) for column in columns) else len(columns) or None
