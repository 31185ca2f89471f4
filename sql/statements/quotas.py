"""SET QUOTA, RESET QUOTA and SHOW QUOTAS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.schema.types import BigIntType, VarCharType
from sql.execution.results import ResultColumn, ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement, LookingStatement, handles

TEXT = VarCharType()


@handles(trees.SetQuota)
@dataclass(frozen=True)
class SetQuota(LocalStatement):
    """``SET QUOTA name = value FOR USER | ROLE principal``."""

    tree: trees.SetQuota

    def run(self, context: ExecutionContext) -> ResultSet:
        """Set it, or give it another value."""
        args = self.tree.args
        context.lake.quotas.set(
            context.lake.caller, args["holder"], args["principal"], args["name"], args["value"], claim=context.idempotency
        )
        return ResultSet.ok()


@handles(trees.ResetQuota)
@dataclass(frozen=True)
class ResetQuota(LocalStatement):
    """``RESET QUOTA name FOR USER | ROLE principal``."""

    tree: trees.ResetQuota

    def run(self, context: ExecutionContext) -> ResultSet:
        """Take it away."""
        args = self.tree.args
        context.lake.quotas.reset(context.lake.caller, args["holder"], args["principal"], args["name"], claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.ShowQuotas)
@dataclass(frozen=True)
class ShowQuotas(LookingStatement):
    """``SHOW QUOTAS [FOR USER | ROLE principal]``."""

    tree: trees.ShowQuotas

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """Whom it binds, what it limits and how much of it is taken."""
        texts = [ResultColumn(name, TEXT) for name in ("holder", "principal", "quota", "value")]
        return [*texts, ResultColumn("taken", BigIntType())]

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """One row for each quota the caller may see."""
        wanted = (self.tree.args.get("holder"), self.tree.args.get("principal"))
        return [
            (row.quota.holder.value, row.quota.principal, row.quota.name, row.quota.shown, row.taken)
            for row in context.lake.quotas.shown(context.lake.caller)
            if wanted in ((None, None), (row.quota.holder, row.quota.principal))
        ]
