"""SET and RESET."""

from __future__ import annotations

from dataclasses import dataclass

from model.options.masking import masked
from sql.execution.results import ResultSet, strings
from sql.execution.session_settings import SQL_OPTIONS, check_setting
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement, handles

SETTINGS = strings("key", "value")
"""What a SET without a key answers with."""


@handles(trees.SetOption)
@dataclass(frozen=True)
class SetOption(LocalStatement):
    """``SET`` and ``SET 'key' = 'value'``."""

    tree: trees.SetOption

    @property
    def lists(self) -> bool:
        """Whether it tells what is set, and sets nothing."""
        return self.tree.args.get("key") is None

    def run(self, context: ExecutionContext) -> ResultSet:
        """Set one option, or list what is set."""
        if self.lists:
            return ResultSet.of_rows(SETTINGS, sorted((name, masked(name, value)) for name, value in context.session.settings.items()))
        key = self.tree.args["key"]
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
