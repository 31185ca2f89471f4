"""DELETE, UPDATE and MERGE: what they may touch, and what they answer; the rows are found by what answers a SELECT with the same WHERE."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from sqlglot import exp

from lake import LakeTable
from lake.access.row_filters import judge_of
from lake.rewrite.change_rows import ChangedFile, Changes, Find, change_rows, files_of, find_tasks, require_erasable
from model.access import Access, ReadRules, table_resource
from model.errors import AnalysisError, Forbidden
from model.schema.types import BigIntType, IntType
from model.snapshot import Operation, Snapshot
from sql.analysis.references import TableReference, table_references
from sql.connectors.stored import find_connector
from sql.execution.answers import written_answer
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN
from sql.statements.rows.assignments import Assignment, assignments_of, check_values
from sql.system.names import is_system

ChangeTree = trees.DeleteRows | trees.UpdateRows | trees.MergeRows
_COUNT = BigIntType(nullable=False)
_VERBS = {Operation.DELETE: "deleted", Operation.UPDATE: "updated", Operation.MERGE: "merged"}
_OPERATIONS: dict[type[exp.Expr], Operation] = {
    trees.DeleteRows: Operation.DELETE,
    trees.UpdateRows: Operation.UPDATE,
    trees.MergeRows: Operation.MERGE,
}


@runtime_checkable
class ChangesRows(Protocol):
    """A statement that can say which rows of a snapshot it means."""

    def find(
        self, context: ExecutionContext, table: LakeTable, snapshot: Snapshot | None, *, clean: Collection[str] | None = None
    ) -> Changes:
        """What it does to the snapshot's rows.

        ``clean``: paths of files that are known to hold no such row; where it is given all others are read of the partitions that may hold
        such rows, whatever bounds, footers and indexes tell of them.
        """
        ...


def operation_of(tree: ChangeTree) -> Operation:
    """The statement's word."""
    return _OPERATIONS[type(tree)]


def target_of(context: ExecutionContext, tree: ChangeTree) -> tuple[LakeTable, ReadRules]:
    """The table whose rows are changed, and what of it the caller sees: nothing else is.

    Raises `Forbidden` for who may not read what decides or not do it, and `UnsupportedStatement` where rows stay.
    """
    operation, reference = operation_of(tree), reference_of(tree.this)
    if is_system(reference.parts) or find_connector(context.lake, context.session, reference.parts) is not None:
        raise AnalysisError(f"{reference.name} is no table whose rows can be {_VERBS[operation]}.", fragment=reference.name)
    if reference.options or reference.as_of is not None:
        raise AnalysisError(f"{operation} takes no options or snapshot of {reference.name}: it changes what the table holds now.")
    table = context.lake.open(context.session.identifier(reference.parts))
    context.lake.caller.require_to_change_rows(table_resource(table.identifier))
    if operation is not Operation.DELETE:
        context.lake.caller.require(Access.UPDATE, table_resource(table.identifier))
    rules = context.lake.read_rules(table)
    if rules.restricted:
        context.progress.count_nothing()
    require_erasable(table, operation)
    _require_shown(context, tree, table, reference, rules)
    return table, rules


def update_target(context: ExecutionContext, tree: trees.UpdateRows) -> tuple[LakeTable, tuple[Assignment, ...]]:
    """The table and what its columns are given; raises what `target_of` and `assignments_of` raise."""
    table, rules = target_of(context, tree)
    assignments = assignments_of(table, reference_of(tree.this), tree.args["targets"])
    check_values(tree.this.expressions)
    for assignment in assignments:
        if assignment.nested and assignment.field.name in rules.masks:  # its other parts would be what is shown
            raise masked(context, table, assignment.field.name)
    return table, assignments


def _require_shown(context: ExecutionContext, tree: ChangeTree, table: LakeTable, reference: TableReference, rules: ReadRules) -> None:
    """Raise `Forbidden` where a masked column decides which rows are meant, or what they hold then."""
    qualifiers = {(reference.node.alias,)} | {reference.parts[at:] for at in range(len(reference.parts))}
    others = {str(node.alias_or_name) for node in tree.find_all(exp.Table, exp.Subquery) if node is not reference.node}
    for column in tree.find_all(exp.Column) if rules.masks else ():
        names = tuple(part.name for part in column.parts)
        if len(names) > 1 and names[0] in others:
            continue  # a column of another table
        for count in range(len(names)):
            if (count == 0 or names[:count] in qualifiers) and names[count] in rules.masks:
                raise masked(context, table, names[count])


def masked(context: ExecutionContext, table: LakeTable, column: str) -> Forbidden:
    """The refusal to change rows by values that are not shown."""
    return Forbidden(
        f"Column {column} of table {table.identifier} is masked for {context.lake.caller.principal}; which rows change, and to what, "
        "cannot be decided by values that are not shown. Name other columns, or let somebody do it who sees it."
    )


def reference_of(query: exp.Expr) -> TableReference:
    """The mention of the table whose rows are changed."""
    node = query.args["from_"].this
    return next(reference for reference in table_references(query) if reference.node is node)


def change(context: ExecutionContext, tree: ChangeTree, table: LakeTable, find: Find) -> ResultSet:
    """Change the rows that are found, or in a dry run tell of them."""
    operation = operation_of(tree)
    if tree.args.get("dry_run"):
        with find(table, latest := table.latest()) as changes:
            files = files_of(table, find_tasks(table, latest, changes))
            return ResultSet.of_rows(_columns(operation), _shown(context, table, files, changes))
    context.progress.begin(f"{operation} of {table.identifier}")
    done = change_rows(
        context.lake,
        table,
        find,
        operation=operation,
        claim=context.idempotency,
        answer=written_answer,
        judge=judge_of(table, context.lake.read_rules(table), context.lake.caller),
        check=context.cancellation.check,
    )
    return ResultSet.written(done.rows, done.snapshot.id if done.snapshot else None)


def _columns(operation: Operation) -> tuple[ResultColumn, ...]:
    return (
        ResultColumn("partition", STRING), ResultColumn("bucket", IntType(nullable=False)), ResultColumn("file", STRING),
        ResultColumn("rows", _COUNT), ResultColumn(_VERBS[operation], _COUNT), ResultColumn("bytes", _COUNT), DRY_COLUMN,
    )  # fmt: skip


def _shown(context: ExecutionContext, table: LakeTable, files: tuple[ChangedFile, ...], changes: Changes) -> list[tuple[object, ...]]:
    """A line for each file; to who sees only a part of the table files say too much, and one line has all there is to tell."""
    if not context.lake.tells_counts(table):
        return [("", 0, "", 0, changes.rows, 0, True)]
    new = [("", 0, "", 0, changes.inserted_rows, 0, True)] if changes.inserted_rows else []
    return [*((file.partition, file.bucket, file.name, file.rows, file.changed, file.size, True) for file in files), *new]
