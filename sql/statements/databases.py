"""CREATE, ALTER, DROP and USE of databases."""

from __future__ import annotations

from dataclasses import dataclass

from model.errors import AnalysisError
from sql.execution.results import ResultSet
from sql.execution.session import CATALOG
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement, handles


def database_name(parts: tuple[str, ...]) -> str:
    """The database a name means: ``d`` or ``sluice.d``."""
    if len(parts) == 2 and parts[0] == CATALOG:
        return parts[1]
    if len(parts) != 1:
        raise AnalysisError(f"There is no catalog {parts[0]}; the catalog is called {CATALOG}.", fragment=".".join(parts))
    return parts[0]


@handles(trees.CreateDatabase)
@dataclass(frozen=True)
class CreateDatabase(LocalStatement):
    """``CREATE DATABASE``."""

    tree: trees.CreateDatabase

    def run(self, context: ExecutionContext) -> ResultSet:
        """Add the database."""
        args = self.tree.args
        name = database_name(args["name"])
        context.lake.create_database(
            name, options=args["options"], comment=args["comment"], if_not_exists=args["if_not_exists"], claim=context.idempotency
        )
        return ResultSet.ok()


@handles(trees.DropDatabase)
@dataclass(frozen=True)
class DropDatabase(LocalStatement):
    """``DROP DATABASE``."""

    tree: trees.DropDatabase

    def run(self, context: ExecutionContext) -> ResultSet:
        """Remove the database; a session that was in it goes back to the default one."""
        args = self.tree.args
        name = database_name(args["name"])
        context.lake.drop_database(
            name, if_exists=args["if_exists"], cascade=args["cascade"], purge=args["purge"], claim=context.idempotency
        )
        if context.session.current_database == name:
            context.session.current_database = "default"
        return ResultSet.ok()


@handles(trees.AlterDatabase)
@dataclass(frozen=True)
class AlterDatabase(LocalStatement):
    """``ALTER DATABASE … SET``."""

    tree: trees.AlterDatabase

    def run(self, context: ExecutionContext) -> ResultSet:
        """Change the database's options."""
        name, options = database_name(self.tree.args["name"]), self.tree.args["set_options"]
        context.lake.alter_database(name, set_options=options, claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.UseDatabase)
@dataclass(frozen=True)
class UseDatabase(LocalStatement):
    """``USE database``."""

    tree: trees.UseDatabase

    def run(self, context: ExecutionContext) -> ResultSet:
        """Let unqualified names mean tables of the database."""
        parts = self.tree.args["name"]
        if parts == (CATALOG,) and CATALOG not in context.lake.list_databases():
            return ResultSet.ok()
        name = database_name(parts)
        context.lake.database(name)
        context.session.current_database = name
        return ResultSet.ok()


@handles(trees.UseCatalog)
@dataclass(frozen=True)
class UseCatalog(LocalStatement):
    """``USE CATALOG name``."""

    tree: trees.UseCatalog

    def run(self, context: ExecutionContext) -> ResultSet:
        """There is one catalog."""
        parts = self.tree.args["name"]
        if parts != (CATALOG,):
            raise AnalysisError(f"There is no catalog {'.'.join(parts)}; the catalog is called {CATALOG}.", fragment=".".join(parts))
        return ResultSet.ok()
