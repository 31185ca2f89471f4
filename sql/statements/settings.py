"""SET and RESET."""

from __future__ import annotations

from dataclasses import dataclass

from model.option import masked
from sql import trees
from sql.results import ResultSet
from sql.sql_options import SQL_OPTIONS, check_setting
from sql.statements.base import ExecutionContext, LocalStatement, handles


@handles(trees.SetOption)
@dataclass(frozen=True)
class SetOption(LocalStatement):
    """``SET`` and ``SET 'key' = 'value'``."""

    tree: trees.SetOption

    def run(self, context: ExecutionContext) -> ResultSet:
        """Set one option, or list what is set."""
        key = self.tree.args.get("key")
        if key is None:
            rows = sorted((name, masked(name, value)) for name, value in context.session.settings.items())
            return ResultSet.of_strings(("key", "value"), rows)
        check_setting(key, self.tree.args["value"])
        context.session.set(key, self.tree.args["value"])
        return ResultSet.ok()


@handles(trees.ResetOption)
@dataclass(frozen=True)
class ResetOption(LocalStatement):
    """``RESET`` and ``RESET 'key'``."""

    tree: trees.ResetOption

    def run(self, context: ExecutionContext) -> ResultSet:
        """Undo what was SET, of one option or all."""
        key = self.tree.args.get("key")
        if key is not None and key not in context.session.settings:
            SQL_OPTIONS.known(key)
        context.session.reset(key)
        return ResultSet.ok()
