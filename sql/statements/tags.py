"""CALL procedures about tags, snapshots kept under a name, and branches."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from lake import LakeTable
from lake import retention as kept
from lake.auto_tags import expire_tags as expire_lake_tags
from lake.retention import Removed
from model.errors import SnapshotNotExist
from model.table_options import TABLE_OPTIONS
from model.types import BigIntType, BooleanType
from sql.partition_choice import span
from sql.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures import Arguments, procedure, table_to_write
from sql.statements.retention import dry, moment_of

_COUNT = BigIntType(nullable=False)
_DRY = ResultColumn("dry_run", BooleanType(nullable=False))


def _retained(table: LakeTable, arguments: Arguments) -> dt.timedelta | None:
    if "time_retained" in arguments:
        return span("time_retained", arguments["time_retained"])
    found: dt.timedelta | None = TABLE_OPTIONS.read(table.schema.options, "tag.default-time-retained")
    return found


@procedure("create_tag", required=2, table=str, tag=str, snapshot_id=int, time_retained=str)
def create_tag(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Keep a snapshot under a name."""
    table = table_to_write(context, arguments)
    kept.create_tag(context.lake, table, arguments["tag"], snapshot_id=arguments.get("snapshot_id"), retained=_retained(table, arguments))
    return ResultSet.ok()


@procedure("replace_tag", required=2, table=str, tag=str, snapshot_id=int, time_retained=str)
def replace_tag(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Let a tag keep another snapshot, or keep it for another time."""
    table = table_to_write(context, arguments)
    present = next((tag for tag in kept.tags_of(context.lake, table) if tag.name == arguments["tag"]), None)
    snapshot_id = arguments.get("snapshot_id", present.snapshot.id if present else None)
    retained = _retained(table, arguments)
    kept.create_tag(context.lake, table, arguments["tag"], snapshot_id=snapshot_id, retained=retained, replace=True)
    return ResultSet.ok()


@procedure("create_tag_from_timestamp", required=3, table=str, tag=str, timestamp=int, time_retained=str)
def create_tag_from_timestamp(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Keep the first snapshot committed at or after a time, in milliseconds since the epoch."""
    table = table_to_write(context, arguments)
    found = next((s for s in context.lake.snapshots(table) if s.time_millis >= arguments["timestamp"]), None)
    return _tag_found(context, table, arguments, None if found is None else found.id, "as late as the timestamp")


@procedure("create_tag_from_watermark", required=3, table=str, tag=str, watermark=int, time_retained=str)
def create_tag_from_watermark(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Keep the first snapshot that has reached a watermark."""
    table = table_to_write(context, arguments)
    reached = (s for s in context.lake.snapshots(table) if s.watermark is not None and s.watermark >= arguments["watermark"])
    found = next(reached, None)
    return _tag_found(context, table, arguments, None if found is None else found.id, "with that watermark")


def _tag_found(context: ExecutionContext, table: LakeTable, arguments: Arguments, snapshot_id: int | None, what: str) -> ResultSet:
    if snapshot_id is None:
        raise SnapshotNotExist(f"Table {table.identifier} has no snapshot {what}.", resource_name=str(table.identifier))
    made = kept.create_tag(context.lake, table, arguments["tag"], snapshot_id=snapshot_id, retained=_retained(table, arguments))
    columns = [
        ResultColumn("tagName", STRING),
        ResultColumn("snapshot", _COUNT),
        ResultColumn("commit_time", _COUNT),
        ResultColumn("watermark", BigIntType()),
    ]
    return ResultSet.of_rows(columns, [(made.name, made.snapshot.id, made.snapshot.time_millis, made.snapshot.watermark)])


@procedure("rename_tag", required=3, table=str, tag=str, target_tag=str)
def rename_tag(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Give a tag another name."""
    kept.rename_tag(context.lake, table_to_write(context, arguments), arguments["tag"], arguments["target_tag"])
    return ResultSet.ok()


@procedure("delete_tag", required=2, table=str, tag=str, dry_run=bool)
def delete_tag(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Forget tags, parted by commas, and what only they kept."""
    table = table_to_write(context, arguments)
    names = [name.strip() for name in arguments["tag"].split(",") if name.strip()]
    done = [kept.delete_tag(context.lake, table, name, dry_run=dry(arguments)) for name in names]
    return _tags_gone([(name, one) for name, one in zip(names, done, strict=True)], dry_run=dry(arguments))


def _tags_gone(gone: Sequence[tuple[str, Removed]], *, dry_run: bool) -> ResultSet:
    columns = [ResultColumn("tag", STRING), ResultColumn("data_files", _COUNT), ResultColumn("bytes", _COUNT), _DRY]
    return ResultSet.of_rows(columns, [(name, one.data_files, one.size, dry_run) for name, one in gone])


@procedure("expire_tags", required=1, table=str, older_than=str, dry_run=bool)
def expire_tags(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Drop the tags whose time is over, or that were made before a time."""
    older = None
    if "older_than" in arguments:
        older = moment_of(context, "older_than", arguments["older_than"]).astimezone().replace(tzinfo=None)
    gone = expire_lake_tags(context.lake, table_to_write(context, arguments), older_than=older, dry_run=dry(arguments))
    return ResultSet.of_rows([ResultColumn("expired_tags", STRING), _DRY], [(tag.name, dry(arguments)) for tag in gone])


# Branches


@procedure("create_branch", required=2, table=str, branch=str, tag=str)
def create_branch(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Begin a branch, from a tag or empty."""
    context.lake.branches.create(table_to_write(context, arguments), arguments["branch"], from_tag=arguments.get("tag"))
    return ResultSet.ok()


@procedure("delete_branch", required=2, table=str, branch=str)
def delete_branch(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Forget branches, parted by commas, with their snapshots and tags."""
    table = table_to_write(context, arguments)
    for name in filter(None, (name.strip() for name in arguments["branch"].split(","))):
        context.lake.branches.drop(table, name)
    return ResultSet.ok()


@procedure("rename_branch", required=3, table=str, from_branch=str, to_branch=str)
def rename_branch(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Give a branch another name."""
    context.lake.branches.rename(table_to_write(context, arguments), arguments["from_branch"], arguments["to_branch"])
    return ResultSet.ok()


@procedure("fast_forward", required=2, table=str, branch=str)
def fast_forward(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Let main go on where a branch is: main's snapshots from the branch's first on are replaced by the branch's."""
    context.lake.branches.fast_forward(table_to_write(context, arguments), arguments["branch"])
    return ResultSet.ok()
