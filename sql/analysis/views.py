"""Views in queries: a mention of one becomes its query, read in the first dialect that can be read here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlglot import exp

from model.errors import AnalysisError, LakeError, SqlError, StatementTooLarge, UnsupportedStatement
from model.identifier import Identifier
from model.view import COLUMNS_OPTION, OWN_DIALECT, View, Views
from sql.analysis.limits.plan_size import MOST_NODES
from sql.analysis.qualified import unqualify
from sql.analysis.references import OF_VIEW, TableReference, check_hints, replace_by_query, table_references
from sql.analysis.view_columns import name_unnamed
from sql.dialect import is_query, parse_one
from sql.parsing.size import check_words
from sql.statements.base import ExecutionContext

DIALECTS = (OWN_DIALECT, "spark", "flink")
"""Dialects whose queries can be read, the best first; a view without any of them is read by its plain query."""
DATABASE_OPTION = "sluice.database"
"""The database in which a view's bare names are looked for; without it, its own."""
_DEEPEST = 16


def expand_views(context: ExecutionContext, tree: exp.Expr, views: Views | None = None) -> exp.Expr:
    """The query with every view in it replaced by what it stands for; the given tree may be changed.

    ``views`` gives them; without it those that the caller may read are looked up.
    Raises `AnalysisError` for views nested too deep (or in a circle) and for those whose query cannot be read here, and
    `StatementTooLarge` where they stand for more than is read: each mention is a copy, and views of views multiply.
    """
    readable = views or context.lake.views.readable
    known: dict[tuple[str, str], _Expanded | None] = {}
    added = 0
    for _ in range(_DEEPEST):
        mentioned = [(reference, name, (name.database, name.table)) for reference, name in _mentioned(context, tree)]
        new = sorted({pair for _, _, pair in mentioned} - known.keys())
        known |= dict.fromkeys(new)
        known |= {pair: _Expanded(view) for pair, view in readable(new).items()} if new else {}
        replaced = [(reference, name, view) for reference, name, pair in mentioned if (view := known[pair]) is not None]
        if not replaced:
            return tree
        unqualify(tree, [reference for reference, _, _ in replaced])
        for reference, name, view in replaced:
            context.cancellation.check()
            if reference.options or reference.as_of is not None:
                raise AnalysisError(f"{name} is a view; it has no options or snapshots to choose.", fragment=reference.name)
            added += view.mention(name)
            check_hints(view.query, context.settings)
            if added > MOST_NODES:
                raise _multiplied(known)
            replace_by_query(reference, view.query.copy(), view.columns)
    raise AnalysisError(f"Views refer to each other more than {_DEEPEST} deep, or in a circle.")


class _Expanded:
    """A view that a statement mentions: parsed once, and counted at each mention."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._size = 0
        self.columns = [field.name for field in view.fields]
        self.name = ""
        self.added = 0

    def mention(self, name: Identifier) -> int:
        """Parse it where this is the first mention; tells by how much each makes the statement larger."""
        if not self.name:
            self.query = _query_of(name, self._view)
            self.name, self._size = str(name), sum(1 for _ in self.query.walk())
        self.added += self._size
        return self._size


def _multiplied(known: Mapping[tuple[str, str], _Expanded | None]) -> StatementTooLarge:
    most = max((view for view in known.values() if view is not None), key=lambda view: view.added)
    return StatementTooLarge(
        f"With every mention of a view replaced by its query the statement would be more than {MOST_NODES} words, signs and literals, "
        f"most of them by {most.name}: write what it gives into a table, or mention it less often."
    )


def sources_of(context: ExecutionContext, tree: exp.Expr) -> list[TableReference]:
    """Every table a query reads, by itself or by its views; raises what `expand_views` raises."""
    return table_references(expand_views(context, tree.copy()))


def is_view(context: ExecutionContext, parts: tuple[str, ...]) -> bool:
    """Whether a name means a view."""
    name = context.session.identifier(parts)
    return bool(context.lake.views.readable([(name.database, name.object_name)]))


def _mentioned(context: ExecutionContext, tree: exp.Expr) -> list[tuple[TableReference, Identifier]]:
    temporary = context.session.temporary_tables
    return [
        (reference, context.session.identifier(reference.parts))
        for reference in table_references(tree)
        if not (len(reference.parts) == 1 and reference.parts[0] in temporary) and "$" not in reference.parts[-1]
    ]


def _query_of(name: Identifier, view: View) -> exp.Query:
    """The view's query, its bare names given their database."""
    problem: LakeError | None = None
    for text in [*(view.dialects[dialect] for dialect in DIALECTS if dialect in view.dialects), view.query]:
        try:
            check_words(text)
            tree = parse_one(text, stored=True)
            names = kept_names(view) if text == view.dialects.get(OWN_DIALECT) and tree.is_star else ()
        except (SqlError, StatementTooLarge) as refused:
            problem = problem or refused
            continue
        if not is_query(tree):
            problem = problem or UnsupportedStatement("it is not a query")
            continue
        database = view.options.get(DATABASE_OPTION, name.database)
        note_of_view(tree)
        for reference in table_references(tree):
            if len(reference.parts) == 1:
                reference.node.set("db", exp.to_identifier(database, quoted=True))
        assert isinstance(tree, exp.Query)
        if not names:
            return tree
        name_unnamed(tree, names)
        return _named(tree, names, [field.name for field in view.fields])
    raise AnalysisError(f"The view {name} cannot be read here: {problem}", fragment=name.table)


def note_of_view(query: exp.Expr) -> None:
    """Let the tables that a view's query mentions be known as such: others than who reads it may have written their hints."""
    for table in query.find_all(exp.Table):
        table.meta[OF_VIEW] = True


def kept_names(view: View) -> Sequence[str]:
    """What the view's query called its columns when the view was made, one for each of its own; nothing where that is not known."""
    try:
        names = json.loads(view.options.get(COLUMNS_OPTION, "[]"))
    except ValueError:
        return ()
    fits = isinstance(names, list) and len(names) == len(view.fields) and all(isinstance(name, str) for name in names)
    return names if fits else ()


def _named(query: exp.Query, names: Sequence[str], columns: Sequence[str]) -> exp.Query:
    """The columns of these names of a query, whatever others it has by now and in whichever order."""
    selected = [
        exp.alias_(exp.column(exp.to_identifier(name, quoted=True)), column, quoted=True)
        for name, column in zip(names, columns, strict=True)
    ]
    return exp.select(*selected).from_(query.subquery(alias=exp.to_identifier("__sluice_view", quoted=True), copy=False), copy=False)
