"""CALL sys.rewrite_files: files of earlier versions and other writers brought up to what is written today."""

from __future__ import annotations

from lake.rewrite.compaction import live_files
from lake.rewrite.marking import mark_files
from model.schema.types import BigIntType
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, Arguments, by_partition, procedure, table_to_write
from sql.statements.procedures.partition_choice import chosen

_COUNT = BigIntType(nullable=False)
_COLUMNS = (
    ResultColumn("partition", STRING), ResultColumn("files", _COUNT), ResultColumn("bytes", _COUNT), ResultColumn("left", _COUNT),
    ResultColumn("snapshot_id", BigIntType()), DRY_COLUMN,
)  # fmt: skip


@procedure("rewrite_files", required=1, table=str, where=str, partitions=str)
def rewrite_files(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Give Parquet files the ids and annotations that files have today; pages are copied, and no row is decoded."""
    table = table_to_write(context, arguments)
    live = live_files(table)
    wanted = chosen(table, live, arguments)
    partitions = [partition for partition in dict.fromkeys(entry.partition for entry in live) if partition in wanted]
    context.progress.begin(f"marking files of {table.identifier}", total=len(partitions))
    done = mark_files(
        context.lake,
        table,
        partitions,
        dry_run=arguments.dry_run,
        check=context.cancellation.check,
        advance=lambda size: context.progress.advance(size=size),
    )
    rows = [(group.name, group.files, group.size, group.left, group.snapshot and group.snapshot.id, arguments.dry_run) for group in done]
    return ResultSet.of_rows(_COLUMNS, by_partition(context, table, rows))
