"""CALL sys.check_table and sys.remove_unexisting_files: what of a table is damaged, and its rest made readable."""

from __future__ import annotations

from collections.abc import Iterable

from lake import LakeTable
from lake.register.looks.faults import Fault
from lake.register.lost import Hears
from lake.register.lost import remove_unexisting_files as remove_lost
from model.schema.types import BigIntType
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, Arguments, procedure, table_of, table_to_write

_THREADS = 8
_FAULT = (
    ResultColumn("branch", STRING),
    ResultColumn("snapshot_id", BigIntType()),
    ResultColumn("partition", STRING),
    ResultColumn("file", STRING),
    ResultColumn("record_count", BigIntType()),
    ResultColumn("problem", STRING),
)


def _row(fault: Fault) -> tuple[object, ...]:
    return fault.branch, fault.snapshot_id, fault.partition, fault.file, fault.rows, fault.problem


def _threads(arguments: Arguments) -> int:
    return min(64, max(1, int(arguments.get("parallelism", _THREADS))))


def _progress(context: ExecutionContext, doing: str, table: LakeTable) -> Hears:
    """Tells a call's progress: of metadata, whose files tell how many there are, and then of data files, with their number and bytes."""

    def checked(files: int, size: int) -> None:
        context.cancellation.check()
        context.progress.advance(files, size=size)

    def planned(files: int, size: int) -> None:
        context.progress.begin(f"{doing} data files of {table.identifier}", total=files, total_bytes=size)

    context.progress.begin(f"{doing} metadata of {table.identifier}")
    return Hears(checked=checked, planned=planned)


@procedure("check_table", required=1, only_looks=True, table=str, deep=bool, parallelism=int)
def check_table(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Hold every file that the table's snapshots, tags and branches name against what names it; one row for each that is damaged."""
    table = table_of(context, arguments)
    hears = _progress(context, "checking the", table)
    faults: Iterable[Fault] = context.lake.check_table(
        table, deep=bool(arguments.get("deep")), threads=_threads(arguments), checked=hears.checked, planned=hears.planned
    )
    return ResultSet.of_rows(list(_FAULT), [_row(fault) for fault in faults])


@procedure("claim_warehouse", required=0)
def claim_warehouse(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Say that the warehouse is this catalog's, whosever it was: writes go on. For administrators."""
    catalog_id = context.lake.claim_warehouse(dry_run=arguments.dry_run)
    return ResultSet.of_rows([ResultColumn("catalog_id", STRING), DRY_COLUMN], [(str(catalog_id), arguments.dry_run)])


@procedure("confirm_clock", required=0)
def confirm_clock(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Say that Postgres's time is right: expiry goes on. For administrators; tells why it waited."""
    context.lake.caller.administers()
    doubt = context.lake.clock.look()
    if not arguments.dry_run:
        context.lake.clock.confirm()
        context.lake.clock.look()
    return ResultSet.of_rows([ResultColumn("doubt", STRING), DRY_COLUMN], [(doubt, arguments.dry_run)])


@procedure("remove_unexisting_files", required=1, table=str, dry_run=bool, parallelism=int, deep=bool)
def remove_unexisting_files(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Commit a snapshot without the files that cannot be read; unless ``dry_run => false`` says so they are only told, one row each."""
    table = table_to_write(context, arguments)
    dry_run = bool(arguments.get("dry_run", True))
    faults = remove_lost(
        context.lake, table, dry_run=dry_run, deep=bool(arguments.get("deep")), threads=_threads(arguments),
        check=context.cancellation.check, hears=_progress(context, "looking for lost", table),
    )  # fmt: skip
    return ResultSet.of_rows([*_FAULT, DRY_COLUMN], [(*_row(fault), dry_run) for fault in faults])
