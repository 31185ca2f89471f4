"""CALL sys.rescale and sys.purge_files: tables whose files are written anew, or let go altogether."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from uuid import uuid4

from lake.commit.claims import DONE
from lake.commit.steps import Steps
from lake.rewrite import expiry as kept
from lake.rewrite.rescale import outgrown, rescale
from lake.tables.names import refuse_branch
from model.access import Access, table_resource
from model.errors import AnalysisError
from model.schema.types import BigIntType, IntType
from model.snapshot import CommitKind
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, Arguments, by_partition, identifier_of, procedure, table_to_write
from sql.statements.procedures.partition_choice import MOST_BUCKETS, named, parse_specs, where
from table.format.consumers import read_consumers
from table.retention.expiry import ExpiryRules
from table.write.snapshot_builder import CommitRequest, everything

_COUNT = BigIntType(nullable=False)
_BUCKETS = IntType(nullable=False)
_RESCALED = (
    ResultColumn("partition", STRING), ResultColumn("buckets_before", _BUCKETS), ResultColumn("buckets", _BUCKETS),
    ResultColumn("files", _COUNT), ResultColumn("rows", _COUNT), ResultColumn("bytes", _COUNT), DRY_COLUMN,
)  # fmt: skip
_PURGED = (ResultColumn("what", STRING), ResultColumn("name", STRING), DRY_COLUMN)
_ALL_BUT_THE_LAST = ExpiryRules(at_least=1, at_most=1, retained=dt.timedelta(), per_run=None)


def _as_spark_orders(positional: Sequence[object]) -> Sequence[str] | None:
    """Spark's fourth argument is a condition, Flink's a number."""
    return ("table", "bucket_num", "partition", "where") if len(positional) > 3 and isinstance(positional[3], str) else None


@procedure(
    "rescale",
    required=1,
    other_order=_as_spark_orders,
    table=str,
    bucket_num=int,
    partition=str,
    scan_parallelism=int,
    sink_parallelism=int,
    where=str,
)
def rescale_partitions(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Write partitions of another number of buckets anew with the table's own or a given one, one commit each; keys keep their order."""
    table = table_to_write(context, arguments)
    name = str(table.identifier)
    if table.schema.bucket <= 0:
        raise AnalysisError(f"Table {name} has no buckets; there is nothing to rescale.", fragment="rescale")
    buckets = arguments.get("bucket_num", table.schema.bucket)
    if not 1 <= buckets <= MOST_BUCKETS:
        raise AnalysisError(f"bucket_num => {buckets}: a number from 1 to {MOST_BUCKETS:,} is expected.", fragment="bucket_num")
    outgrown_partitions = list(outgrown(table, table.latest(), buckets=buckets))
    rows = {partition.row for partition in outgrown_partitions}
    if "partition" in arguments:
        rows = named(table.schema, rows, parse_specs(arguments["partition"], table.schema, name))
    if "where" in arguments:
        rows = where(table.schema, rows, arguments["where"], name)
    outgrown_partitions = [partition for partition in outgrown_partitions if partition.row in rows]
    context.progress.begin("writing partitions anew", total=len(outgrown_partitions))
    with Steps("sys.rescale"):
        for partition in () if arguments.dry_run else outgrown_partitions:
            context.cancellation.check()
            with context.lake.reserve.promise(partition.size):
                rescale(context.lake, table, partition, buckets=buckets, check=context.cancellation.check)
            context.progress.advance(size=partition.size)
    result_rows = [
        (partition.name, partition.buckets, buckets, len(partition.entries), partition.rows, partition.size, arguments.dry_run)
        for partition in outgrown_partitions
    ]
    result = ResultSet.of_rows(_RESCALED, by_partition(context, table, result_rows))
    if result_rows and buckets != table.schema.bucket:
        result.notices = (
            *result.notices,
            f"WARNING: table {name} has 'bucket' = '{table.schema.bucket}'; these partitions take no rows until "
            f"ALTER TABLE {name} SET ('bucket' = '{buckets}').",
        )
    return result


@procedure("purge_files", required=1, table=str)
def purge_files(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Let go all a table holds, for good: its rows, branches, tags, consumers and earlier snapshots; one row for each name that goes."""
    lake = context.lake
    alone = "TRUNCATE TABLE empties the branch alone, and CALL sys.delete_branch({table}, {branch}) drops it."
    refuse_branch(identifier_of(context, str(arguments["table"])), "a table is purged with all its branches", alone)
    table = table_to_write(context, arguments)
    lake.caller.require(Access.DELETE, table_resource(table.identifier))
    lake.caller.require(Access.PURGE, table_resource(table.identifier))
    gone = [("branch", name) for name in lake.branches.names(table)]
    gone += [("tag", tag.name) for tag in kept.tags_of(lake, table)]
    gone += [("consumer", consumer.name) for consumer in read_consumers(table.files)]
    gone += [("snapshot", str(snapshot.id)) for snapshot in lake.snapshots(table)]
    if not arguments.dry_run and gone:
        lake.clock.require(table.latest())
        with Steps("sys.purge_files") as steps:
            kept.expire_snapshots(lake, table, _ALL_BUT_THE_LAST)
            for what, name in gone:
                match what:
                    case "branch":
                        lake.branches.drop(table, [name])
                    case "tag":
                        kept.delete_tag(lake, table, name)
                    case "consumer":
                        lake.forget_consumer(table, name)
                        steps.made()  # of some only the file
            request = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user=str(uuid4()), operation="TRUNCATE")
            # Once under a key: what was written since belongs to nobody who repeats this. Before it a repeat goes on where it ended.
            lake.commit(table, request, claim=context.idempotency, answer=lambda _: DONE)
            kept.expire_snapshots(lake, table, _ALL_BUT_THE_LAST)
    return ResultSet.of_rows(_PURGED, [(*row, arguments.dry_run) for row in gone])
