"""CREATE, ALTER and DROP of views."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from model.errors import AnalysisError, UnsupportedType
from model.schema.types import Field, parse_type
from model.text.sql_text import quote
from model.view import COLUMNS_OPTION, OWN_DIALECT, RedefineView, SetViewOption, View
from sql.analysis.references import TableReference, table_references
from sql.analysis.views import DATABASE_OPTION, note_of_view
from sql.dialect import parse_one
from sql.execution.results import ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement, handles


def _view(
    context: ExecutionContext, query: exp.Expr, text: str, columns: tuple[tuple[str, str | None], ...] = (), comment: str | None = None
) -> View:
    """The view a query makes; Spark tells the types of its columns."""
    from sql.statements.insert import query_columns

    references = table_references(query)
    _require_lasting(context, references)
    note_of_view(query)  # before Spark looks at it: what would be refused when it is read is refused now
    view_columns = query_columns(context, query)
    if columns and len(columns) != len(view_columns):
        raise AnalysisError(f"The view names {len(columns)} columns, and its query gives {len(view_columns)}.")
    named = columns or tuple((column.name, None) for column in view_columns)
    if len({name for name, _ in named}) != len(named):
        raise AnalysisError("Two columns of the view have the same name; name its columns: CREATE VIEW name (a, b) AS ….")
    fields = []
    for at, ((name, said), column) in enumerate(zip(named, view_columns, strict=True)):
        try:
            parse_type(column.type.to_json())
        except UnsupportedType:
            raise UnsupportedType(f"Column {name} of the view has the type {column.type.sql()}, which no table has; CAST it.") from None
        fields.append(Field(id=at, name=name, type=column.type, description=said))
    database, names = context.session.current_database, [column.name for column in view_columns]
    keeps_names = query.is_star and len(set(names)) == len(names)  # where names repeat only their places tell the columns apart
    columns_given = names if keeps_names and _names_its_columns(query) else ()
    return View(
        fields=tuple(fields),
        query=_for_others(text, database, [name for name, _ in named] if query.is_star else (), columns_given),
        dialects={OWN_DIALECT: text},
        comment=comment,
        options={DATABASE_OPTION: database} | ({COLUMNS_OPTION: json.dumps(names, ensure_ascii=False)} if keeps_names else {}),
    )


def _require_lasting(context: ExecutionContext, references: Sequence[TableReference]) -> None:
    """Raise `AnalysisError` for a table of the session: who reads the view later finds another of its name, or none."""
    for reference in references:
        if len(reference.parts) == 1 and reference.parts[0] in context.session.temporary_tables:
            raise AnalysisError(
                f"A view is read by other sessions, too, and {reference.name} is a temporary table of this one. "
                "CREATE TABLE … WITH ('connector' = …) keeps it in the catalog.",
                fragment=reference.name,
            )


def _names_its_columns(query: exp.Expr) -> bool:
    """Whether each column that a ``*`` may give has a name in the text itself: what has none is called otherwise by each engine."""
    inner = (
        one.this for one in query.find_all(exp.CTE, exp.Subquery) if isinstance(one, exp.CTE) or isinstance(one.parent, exp.From | exp.Join)
    )
    queries = [one for one in (query, *inner) if isinstance(one, exp.Query)]
    return all(column.alias or isinstance(column, exp.Star | exp.Column) for one in queries for column in one.selects)


def _for_others(text: str, database: str, columns: Sequence[str], given: Sequence[str]) -> str:
    """The query as other engines read it, who look for bare names in their own current database, and take columns by their places.

    ``columns``: what the view calls those of a query with a ``*``. Where ``given`` has the names that the query gives them these choose
    them, whatever comes to its tables; else their places do, and a query that gives more or fewer by now is an error, no other column.
    """
    bare = [reference.node.this.meta for reference in table_references(parse_one(text, stored=True)) if len(reference.parts) == 1]
    for start in sorted((meta["start"] for meta in bare if "start" in meta), reverse=True):
        text = f"{text[:start]}{quote(database)}.{text[start:]}"
    if not columns:
        return text
    columns_text = ", ".join(f"{quote(name)} AS {quote(column)}" for name, column in zip(given, columns, strict=True)) if given else "*"
    names = "" if given else f" ({', '.join(map(quote, columns))})"
    return "\n".join((f"SELECT {columns_text} FROM (", text, f") AS {quote('__view')}{names}"))  # noqa: S608 - kept as a text, and read under its reader's rights


@handles(trees.CreateView)
@dataclass(frozen=True)
class CreateView:
    """``CREATE VIEW``."""

    tree: trees.CreateView
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Store the query under its name, once it is known to run."""
        args = self.tree.args
        name = context.session.identifier(args["name"])
        view = _view(context, args["query"], args["text"], args["columns"], args["comment"])
        context.lake.views.create(name, view, replace=args["replace"], if_not_exists=args["if_not_exists"], claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.AlterView)
@dataclass(frozen=True)
class AlterView:
    """``ALTER VIEW``."""

    tree: trees.AlterView

    @property
    def needs_spark(self) -> bool:
        """Only a new query is looked at by Spark."""
        return self.tree.args.get("query") is not None

    def run(self, context: ExecutionContext) -> ResultSet:
        """Rename it, or change its options or its query."""
        args = self.tree.args
        name = context.session.identifier(args["name"])
        views, claim = context.lake.views, context.idempotency
        if target := args.get("rename_to"):
            parts = target if len(target) > 1 else (name.database, *target)
            views.rename(name, context.session.identifier(parts), claim=claim)
        elif options := args.get("options"):
            views.alter(name, [SetViewOption(key=key, value=value) for key, value in options.items()], claim=claim)
        else:
            views.get(name)
            views.alter(name, [RedefineView(view=_view(context, args["query"], args["text"]))], claim=claim)
        return ResultSet.ok()


@handles(trees.DropView)
@dataclass(frozen=True)
class DropView(LocalStatement):
    """``DROP [TEMPORARY] VIEW``."""

    tree: trees.DropView

    def run(self, context: ExecutionContext) -> ResultSet:
        """Remove the view; no session has a temporary one."""
        args = self.tree.args
        name = context.session.identifier(args["name"])
        if not args["temporary"]:
            context.lake.views.drop(name, if_exists=args["if_exists"], claim=context.idempotency)
        elif not args["if_exists"]:
            spelled = ".".join(args["name"])
            raise AnalysisError(
                f"There is no temporary view {spelled}; no session has one. DROP VIEW drops one of the catalog.", fragment=spelled
            )
        return ResultSet.ok()
