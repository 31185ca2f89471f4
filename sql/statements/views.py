"""CREATE, ALTER and DROP of views."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from model.errors import AnalysisError, UnsupportedType
from model.schema.types import Field, parse_type
from model.view import SetViewOption, View
from sql.analysis.views import DATABASE_OPTION
from sql.execution.results import ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement, handles

_DIALECT = "sluice"


def _view(
    context: ExecutionContext, query: exp.Expr, text: str, columns: tuple[tuple[str, str | None], ...] = (), comment: str | None = None
) -> View:
    """The view a query makes; Spark tells the types of its columns."""
    from sql.statements.insert import query_columns

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
    return View(
        fields=tuple(fields),
        query=text,
        dialects={_DIALECT: text},
        comment=comment,
        options={DATABASE_OPTION: context.session.current_database},
    )


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
            old = View.from_json(views.get(name).body)
            new = _view(context, args["query"], args["text"], comment=old.comment)
            options = {**old.options, **new.options}
            changed = View(fields=new.fields, query=new.query, dialects=new.dialects, comment=old.comment, options=options)
            views.create(name, changed, replace=True, claim=claim)
        return ResultSet.ok()


@handles(trees.DropView)
@dataclass(frozen=True)
class DropView(LocalStatement):
    """``DROP VIEW``."""

    tree: trees.DropView

    def run(self, context: ExecutionContext) -> ResultSet:
        """Remove the view."""
        name = context.session.identifier(self.tree.args["name"])
        context.lake.views.drop(name, if_exists=self.tree.args["if_exists"], claim=context.idempotency)
        return ResultSet.ok()
