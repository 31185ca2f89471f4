"""Columns named by a table's whole name, ``d.t.a``: Spark is given other things in the tables' places, each with one name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from sqlglot import exp

from model.errors import AnalysisError
from sql.analysis.references import TableReference

_KEYS = ("this", "table", "db", "catalog")
"""Slots of a column's node, from its last name to its first."""


def unqualify(tree: exp.Expr, replaced: Iterable[TableReference]) -> None:
    """Give each column that is qualified by the whole name of a mention the one name that what replaces the mention will have.

    That is the table's last name, and where something else of that name lies between, or beside it, its whole one as an alias of its own:
    ``d1.t.id = d2.t.id`` must not become ``t.id = t.id``. Mentions with an alias answer to that alone. One walk for all.

    Raises `AnalysisError` where a column is qualified by a last name that two tables beside each other share, and one of them is called
    by its whole name.
    """
    mentions = [reference for reference in replaced if not reference.node.alias]
    wholes = {id(reference.node): reference.parts for reference in mentions}
    if all(len(reference.parts) == 1 for reference in mentions):
        return
    columns = [(column, level) for column, level in _columns(tree, wholes) if len(column.parts) > 1]
    meanings = [_meaning(column, level) for column, level in columns]
    taken = {node.alias_or_name for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    renamed: dict[int, str] = {}
    for meaning in meanings:
        if meaning is not None and meaning.captured:
            name = ".".join(wholes[id(meaning.nodes[0])])
            while name in taken:
                name += "_"
            renamed |= {id(node): name for node in meaning.nodes}
    for (column, level), meaning in zip(columns, meanings, strict=True):
        if meaning is None:
            _follow(column, level, renamed)
        elif whole := renamed.get(id(meaning.nodes[0])):
            _call(column, meaning.count, exp.to_identifier(whole, quoted=True))
        else:
            _call(column, meaning.count, column.parts[meaning.count - 1])
    for reference in mentions:
        if own := renamed.get(id(reference.node)):
            alias = reference.node.args.get("alias") or exp.TableAlias()
            alias.set("this", exp.to_identifier(own, quoted=True))
            reference.node.set("alias", alias)


@dataclass(slots=True)
class _Level:
    """What a query reads from, by the last names, as columns at a place see it; behind it what is around the query."""

    outer: _Level | None
    named: dict[str, list[exp.Expr]] = field(default_factory=dict)
    wholes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def add(self, source: exp.Expr) -> None:
        """Put in a table, a query with an alias, or what stands in parentheses without one."""
        if isinstance(source, exp.Subquery) and not source.alias:
            if not isinstance(source.this, exp.Query) or isinstance(source.this, exp.Subquery):
                self.add(source.this)
        elif name := source.alias_or_name:
            self.named.setdefault(name, []).append(source)
        for join in source.args.get("joins") or ():
            self.add(join.this)
        for lateral in source.args.get("laterals") or ():
            self.add(lateral)


def _columns(tree: exp.Expr, wholes: Mapping[int, tuple[str, ...]]) -> Iterator[tuple[exp.Column, _Level | None]]:
    """Each column with what it may mean; a query in FROM does not see what stands beside it, unless it is LATERAL."""
    waiting: list[tuple[exp.Expr, _Level | None, _Level | None]] = [(tree, None, None)]
    while waiting:
        node, level, around = waiting.pop()
        if isinstance(node, exp.Column):
            yield node, level
        if isinstance(node, exp.With):
            level = around if isinstance(node.parent, exp.Select) else level
        elif isinstance(node, exp.Select):
            around, level = level, _Level(level, wholes=wholes)
            sources = [node.args.get("from_"), *(node.args.get("joins") or ()), *(node.args.get("laterals") or ())]
            for source in sources:
                if source is not None:
                    level.add(source if isinstance(source, exp.Lateral) else source.this)
        elif isinstance(node, exp.Subquery) and isinstance(node.parent, exp.From | exp.Join) and isinstance(node.this, exp.Query):
            waiting.append((node.this, around, around))
            waiting += [(child, level, around) for child in node.iter_expressions() if child is not node.this]
            continue
        elif isinstance(node, exp.Subquery) and node.alias and not isinstance(node.this, exp.Query):
            inside = _Level(around, wholes=wholes)
            inside.add(node.this)
            waiting += [(child, inside, around) for child in node.iter_expressions()]
            continue
        waiting += [(child, level, around) for child in node.iter_expressions()]


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The mention whose whole name a column bears; several where it stands twice beside itself."""

    nodes: Sequence[exp.Expr]
    count: int
    """How many of the column's names are the table's."""
    captured: bool
    """Whether the table's last name alone would mean something else, or might."""


def _meaning(column: exp.Column, level: _Level | None) -> _Meaning | None:
    names = tuple(part.name for part in column.parts)
    captured: set[str] = set()
    while level is not None:
        for count in range(len(names) - 1, 1, -1):
            last = names[count - 1]
            candidates = level.named.get(last, [])
            nodes = [node for node in candidates if level.wholes.get(id(node), ())[-count:] == names[:count]]
            if nodes:
                return _Meaning(nodes, count, captured=len(candidates) > len(nodes) or last in captured)
        captured |= level.named.keys() & set(names)
        level = level.outer
    return None


def _follow(column: exp.Column, level: _Level | None, renamed: Mapping[int, str]) -> None:
    """Let a column that is qualified by a last name find what is called by its whole one now."""
    name = column.parts[0].name
    while level is not None and name not in level.named:
        level = level.outer
    if level is None:
        return
    called = {renamed.get(id(node)) for node in level.named[name]}
    if len(called) > 1:
        written = ".".join(part.name for part in column.parts)
        raise AnalysisError(f"{written} may be of more than one table called {name}: write the whole name of the one.", fragment=written)
    if whole := called.pop():
        _call(column, 1, exp.to_identifier(whole, quoted=True))


def _call(column: exp.Column, count: int, table: exp.Expr) -> None:
    """Put one name in the place of the first names of a column."""
    parts = [column.parts[-1], *reversed(column.parts[count:-1]), table]
    for key, part in zip_longest(_KEYS, parts):
        column.set(key, part)
