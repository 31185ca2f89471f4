"""CALL procedures about tags, snapshots kept under a name, and branches."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from lake import LakeTable
from lake.rewrite import expiry as kept
from lake.rewrite.auto_tags import create_automatic_tags
from lake.rewrite.auto_tags import expire_tags as expire_lake_tags
from lake.rewrite.expiry import NOTHING, Removed, Tag
from model.errors import SnapshotNotExist
from model.options.table import TABLE_OPTIONS
from model.schema.types import BigIntType
from model.snapshot import Snapshot
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, Arguments, procedure, table_to_write
from sql.statements.procedures.partition_choice import span
from sql.statements.procedures.retention import moment_of

_COUNT = BigIntType(nullable=False)
_TAGGED = (
    ResultColumn("tag", STRING), ResultColumn("snapshot_id", _COUNT), ResultColumn("data_files", _COUNT), ResultColumn("bytes", _COUNT),
    DRY_COLUMN,
)  # fmt: skip
"""A tag, the snapshot it keeps, and the files that go because nothing keeps them any more."""
_BRANCHED = (
    ResultColumn("branch", STRING), ResultColumn("snapshots", _COUNT), ResultColumn("data_files", _COUNT), ResultColumn("bytes", _COUNT),
    DRY_COLUMN,
)  # fmt: skip
"""A branch, the snapshots that go, and their files, which stay until `sys.remove_orphan_files` finds them."""


def _retained(table: LakeTable, arguments: Arguments) -> dt.timedelta | None:
    if "time_retained" in arguments:
        return span("time_retained", arguments["time_retained"])
    retained: dt.timedelta | None = TABLE_OPTIONS.read(table.schema.options, "tag.default-time-retained")
    return retained


def _tagged(tag: Tag, *, dry_run: bool, removed: Removed = NOTHING) -> ResultSet:
    return ResultSet.of_rows(_TAGGED, [(tag.name, tag.snapshot.id, removed.data_files, removed.size, dry_run)])


@procedure("create_tag", required=2, table=str, tag=str, snapshot_id=int, time_retained=str)
def create_tag(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Keep a snapshot under a name."""
    return _tagged(_create(context, table_to_write(context, arguments), arguments, arguments.get("snapshot_id")), dry_run=arguments.dry_run)


def _create(context: ExecutionContext, table: LakeTable, arguments: Arguments, snapshot_id: int | None) -> Tag:
    retained = _retained(table, arguments)
    name, dry_run = arguments["tag"], arguments.dry_run
    return kept.create_tag(
        context.lake, table, name, snapshot_id=snapshot_id, retained=retained, dry_run=dry_run, claim=context.idempotency
    )


@procedure("replace_tag", required=2, table=str, tag=str, snapshot_id=int, time_retained=str)
def replace_tag(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Let a tag keep another snapshot, the latest where none is named."""
    table, name, dry_run = table_to_write(context, arguments), arguments["tag"], arguments.dry_run
    snapshot_id, retained = arguments.get("snapshot_id"), _retained(table, arguments)
    tag, removed = kept.replace_tag(
        context.lake, table, name, snapshot_id=snapshot_id, retained=retained, dry_run=dry_run, claim=context.idempotency
    )
    return _tagged(tag, removed=removed, dry_run=dry_run)


@procedure("create_tag_from_timestamp", required=3, table=str, tag=str, timestamp=int, time_retained=str)
def create_tag_from_timestamp(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Keep the first snapshot committed at or after a time, in milliseconds since the epoch."""
    table = table_to_write(context, arguments)
    reached = (s for s in _with_tagged(context, table) if s.time_millis >= arguments["timestamp"])
    return _tag_found(context, table, arguments, next(reached, None), "as late as the timestamp")


@procedure("create_tag_from_watermark", required=3, table=str, tag=str, watermark=int, time_retained=str)
def create_tag_from_watermark(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Keep the first snapshot that has reached a watermark."""
    table = table_to_write(context, arguments)
    reached = (s for s in _with_tagged(context, table) if s.watermark is not None and s.watermark >= arguments["watermark"])
    return _tag_found(context, table, arguments, next(reached, None), "with that watermark")


def _with_tagged(context: ExecutionContext, table: LakeTable) -> list[Snapshot]:
    """The snapshots that there are and those that have expired and only tags keep, by id."""
    kept_by_tags = {tag.snapshot.id: tag.snapshot for tag in kept.tags_of(context.lake, table)}
    known = kept_by_tags | {snapshot.id: snapshot for snapshot in context.lake.snapshots(table)}
    return [snapshot for _, snapshot in sorted(known.items())]


def _tag_found(context: ExecutionContext, table: LakeTable, arguments: Arguments, found: Snapshot | None, what: str) -> ResultSet:
    if found is None:
        raise SnapshotNotExist(f"Table {table.identifier} has no snapshot {what}.", resource_name=str(table.identifier))
    made = _create(context, table, arguments, found.id)
    columns = [
        ResultColumn("tagName", STRING),
        ResultColumn("snapshot", _COUNT),
        ResultColumn("commit_time", _COUNT),
        ResultColumn("watermark", BigIntType()),
        DRY_COLUMN,
    ]
    snapshot = made.snapshot
    return ResultSet.of_rows(columns, [(made.name, snapshot.id, snapshot.time_millis, snapshot.watermark, arguments.dry_run)])


@procedure("rename_tag", required=3, table=str, tag=str, target_tag=str)
def rename_tag(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Give a tag another name."""
    table, dry_run = table_to_write(context, arguments), arguments.dry_run
    name, to = arguments["tag"], arguments["target_tag"]
    return _tagged(kept.rename_tag(context.lake, table, name, to, dry_run=dry_run, claim=context.idempotency), dry_run=dry_run)


@procedure("delete_tag", required=2, table=str, tag=str)
def delete_tag(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Forget tags, parted by commas, and what only they kept."""
    table, dry_run = table_to_write(context, arguments), arguments.dry_run
    names = _listed(arguments["tag"])
    removed = kept.delete_tags(context.lake, table, names, dry_run=dry_run, claim=context.idempotency)
    rows = [(tag.name, tag.snapshot.id, gone.data_files, gone.size, dry_run) for tag, gone in removed]
    return ResultSet.of_rows(_TAGGED, rows)


@procedure("trigger_tag_automatic_creation", required=1, table=str)
def trigger_tag_automatic_creation(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Make the tags that are due now (`tag.automatic-creation`), which else the server does by itself."""
    table = table_to_write(context, arguments)
    if not arguments.dry_run:
        context.lake.clock.require(table.latest())  # tags of days to come would push out those of days that were
    made = create_automatic_tags(context.lake, table, dry_run=arguments.dry_run)
    return ResultSet.of_rows([ResultColumn("tag", STRING), DRY_COLUMN], [(name, arguments.dry_run) for name in made])


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


@procedure("expire_tags", required=1, table=str, older_than=str)
def expire_tags(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Drop the tags whose time is over, or that were made before a time."""
    older = None
    if not arguments.dry_run:
        context.lake.clock.require()
    if "older_than" in arguments:
        older = moment_of(context, "older_than", arguments["older_than"])
    gone = expire_lake_tags(context.lake, table_to_write(context, arguments), older_than=older, dry_run=arguments.dry_run)
    return ResultSet.of_rows([ResultColumn("expired_tags", STRING), DRY_COLUMN], [(tag.name, arguments.dry_run) for tag in gone])


# Branches


def _branched(rows: Sequence[tuple[str, Removed]], *, dry_run: bool) -> ResultSet:
    return ResultSet.of_rows(_BRANCHED, [(name, len(gone.snapshots), gone.data_files, gone.size, dry_run) for name, gone in rows])


def _without_tag(positional: Sequence[object]) -> Sequence[str] | None:
    """Flink's ``create_branch('t', 'b', true)``."""
    return ("table", "branch", "ignore_if_exists") if len(positional) > 2 and isinstance(positional[2], bool) else None


@procedure("create_branch", required=2, other_order=_without_tag, table=str, branch=str, tag=str, ignore_if_exists=bool)
def create_branch(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Begin a branch, from a tag or empty; no rows where there is one of the name and that is fine."""
    table, name, dry_run = table_to_write(context, arguments), arguments["branch"], arguments.dry_run
    made = context.lake.branches.create(
        table,
        name,
        from_tag=arguments.get("tag"),
        if_not_exists=arguments.get("ignore_if_exists", False),
        dry_run=dry_run,
        claim=context.idempotency,
    )
    return _branched([(name, NOTHING)] if made else [], dry_run=dry_run)


@procedure("delete_branch", required=2, table=str, branch=str)
def delete_branch(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Forget branches, parted by commas, with their snapshots and tags."""
    table = table_to_write(context, arguments)
    names, head = _listed(arguments["branch"]), table.latest()
    histories = context.lake.branches.drop(table, names, dry_run=arguments.dry_run, claim=context.idempotency)
    rows = [(name, kept.left_behind(table, gone, head)) for name, gone in zip(names, histories, strict=True)]
    return _branched(rows, dry_run=arguments.dry_run)


@procedure("rename_branch", required=3, table=str, from_branch=str, to_branch=str)
def rename_branch(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Give a branch another name."""
    table, name, dry_run = table_to_write(context, arguments), arguments["to_branch"], arguments.dry_run
    context.lake.branches.rename(table, arguments["from_branch"], name, dry_run=dry_run, claim=context.idempotency)
    return _branched([(name, NOTHING)], dry_run=dry_run)


@procedure("fast_forward", required=2, table=str, branch=str)
def fast_forward(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Let main go on where a branch is: main's snapshots from the branch's first on are replaced by the branch's."""
    table, name = table_to_write(context, arguments), arguments["branch"]
    lost, head = context.lake.branches.fast_forward(table, name, dry_run=arguments.dry_run, claim=context.idempotency)
    return _branched([(name, kept.left_behind(table, lost, head))], dry_run=arguments.dry_run)
