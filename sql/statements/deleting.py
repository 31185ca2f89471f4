"""DELETE: what it may touch, and what it answers; which rows go is found by what answers a SELECT with the same WHERE."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sqlglot import exp

from lake import LakeTable
from lake.rewrite.erase import ErasedFile, Find, Matches, erase, find_tasks, require_erasable, told
from model.access import Access, ReadRules, table_resource
from model.errors import AnalysisError, Forbidden
from model.schema.types import BigIntType, IntType
from model.snapshot import Snapshot
from sql.analysis.references import TableReference, table_references
from sql.connectors.stored import find_connector
from sql.execution.answers import written_answer
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN
from sql.system.names import is_system

_COUNT = BigIntType(nullable=False)
_FILES = (
    ResultColumn("partition", STRING), ResultColumn("bucket", IntType(nullable=False)), ResultColumn("file", STRING),
    ResultColumn("rows", _COUNT), ResultColumn("deleted", _COUNT), ResultColumn("bytes", _COUNT), DRY_COLUMN,
)  # fmt: skip


@runtime_checkable
class DeletesRows(Protocol):
    """A DELETE that can say which rows of a snapshot it means."""

    def find(self, context: ExecutionContext, table: LakeTable, snapshot: Snapshot | None) -> Matches:
        """The rows for which its condition is true."""
        ...


def target_of(context: ExecutionContext, tree: trees.DeleteRows) -> tuple[LakeTable, ReadRules]:
    """The table rows go from, and what of it the caller sees: nothing else is deleted.

    Raises `Forbidden` for who may not read what decides or not delete, and `UnsupportedStatement` where rows stay.
    """
    reference = reference_of(tree.this)
    if is_system(reference.parts) or find_connector(context.lake, context.session, reference.parts) is not None:
        raise AnalysisError(f"{reference.name} is no table whose rows can be deleted.", fragment=reference.name)
    if reference.options or reference.as_of is not None:
        raise AnalysisError(f"DELETE takes no options or snapshot of {reference.name}: rows go from what it holds now.")
    table = context.lake.open(context.session.identifier(reference.parts))
    context.lake.caller.require(Access.DELETE, table_resource(table.identifier))
    rules = context.lake.read_rules(table)
    require_erasable(table)
    masked = [column.name for column in tree.find_all(exp.Column) if column.name in rules.masks]
    if masked:
        raise Forbidden(
            f"Column {masked[0]} of table {table.identifier} is masked for {context.lake.caller.principal}; which rows go cannot be "
            "decided by values that are not shown. Name other columns, or let somebody delete who sees it."
        )
    return table, rules


def reference_of(query: exp.Expr) -> TableReference:
    """The mention of the table rows go from."""
    node = query.args["from_"].this
    return next(reference for reference in table_references(query) if reference.node is node)


def delete(context: ExecutionContext, tree: trees.DeleteRows, table: LakeTable, find: Find) -> ResultSet:
    """Delete the rows that are found, or in a dry run tell of them."""
    if tree.args.get("dry_run"):
        files = told(table, find_tasks(table, latest := table.latest(), find(table, latest)))
        return ResultSet.of_rows(_FILES, _shown(context, table, files))
    context.progress.begin(f"deleting rows of {table.identifier}")
    done = erase(context.lake, table, find, claim=context.idempotency, answer=written_answer, check=context.cancellation.check)
    return ResultSet.written(done.rows, done.snapshot.id if done.snapshot else None)


def _shown(context: ExecutionContext, table: LakeTable, files: tuple[ErasedFile, ...]) -> list[tuple[object, ...]]:
    """A line for each file; to who sees only a part of the table files say too much, and one line has all there is to tell."""
    if context.lake.tells_counts(table):
        return [(one.partition, one.bucket, one.name, one.rows, one.erased, one.size, True) for one in files]
    return [("", 0, "", 0, sum(one.erased for one in files), 0, True)]
