"""CALL procedures about what is kept: snapshots, partitions, consumers, orphans (`paimon-append.md` §6)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from lake import LakeTable, Partition
from lake.commit.steps import Steps
from lake.rewrite import expiry as kept
from lake.rewrite.expiry import Removed
from lake.rewrite.mark_done import mark_done
from lake.rewrite.orphans import remove_orphan_files as remove_orphans
from lake.rewrite.partition_expiry import PartitionExpiry, drop_named, expired_partitions
from lake.rewrite.partition_expiry import expire_partitions as expire_in_batches
from lake.rewrite.partition_names import values_of
from lake.tables.consumers import is_noted
from lake.tables.partitions import by_row
from model.catalog_errors import MetadataOnlyTable, StaleRollback
from model.errors import AnalysisError, CommitConflict, Forbidden, InvalidOption, LakeError, SnapshotNotExist, TableNotExist
from model.identifier import Identifier
from model.options.option import OptionGroup
from model.options.rules import check_together
from model.options.table import TABLE_OPTIONS
from model.schema.types import BigIntType, VarCharType
from model.snapshot import NO_WATERMARK
from model.text.whole_number import whole_number
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, DRY_RUN, PROBLEM_COLUMN, Arguments, alone, identifier_of, procedure, table_to_write
from sql.statements.procedures.choosing import Choice
from sql.statements.procedures.partition_choice import named, parse_specs, readings, without_rows
from table.format.consumers import read_consumers
from table.format.layout import partition_dirs
from table.retention.expiry import ExpiryRules, without_limit

_COUNT = BigIntType(nullable=False)
_REMOVED = (
    ResultColumn("snapshots", _COUNT),
    ResultColumn("first_snapshot", BigIntType()),
    ResultColumn("last_snapshot", BigIntType()),
    ResultColumn("data_files", _COUNT),
    ResultColumn("metadata_files", _COUNT),
    ResultColumn("bytes", _COUNT),
    DRY_COLUMN,
)


def _removed(done: Removed, *, dry_run: bool) -> tuple[Any, ...]:
    first, last = (done.snapshots[0], done.snapshots[-1]) if done.snapshots else (None, None)
    return len(done.snapshots), first, last, done.data_files, done.metadata_files, done.size, dry_run


def moment_of(context: ExecutionContext, name: str, text: str) -> dt.datetime:
    """A time as a call gives it, in the session's zone; raises `InvalidOption`."""
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidOption(f"{name} => '{text}': a time such as '2026-01-31 12:00:00' is expected.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(context.zone))


# Snapshots


@procedure(
    "expire_snapshots",
    required=1,
    table=str,
    retain_max=int,
    retain_min=int,
    older_than=str,
    max_deletes=int,
    options=str,
)
def expire_snapshots(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Let snapshots go by count and age; what tags, branches and consumers need stays."""
    table = table_to_write(context, arguments)
    options = dict(table.schema.options) | _given_options(arguments)
    rules = without_limit(ExpiryRules.of(replace(table.schema, options=options)))
    at_least, at_most = arguments.get("retain_min", rules.at_least), arguments.get("retain_max", rules.at_most)
    if at_least < 1 or (at_most is not None and at_most < 1):
        raise AnalysisError("At least one snapshot stays: retain_min and retain_max are 1 or more.")
    if at_most is not None and at_most < at_least:
        if "retain_min" in arguments:
            raise AnalysisError(f"retain_max ({at_most}) is below retain_min ({at_least}).")
        at_least = at_most
    rules = replace(rules, at_least=at_least, at_most=at_most, per_run=arguments.get("max_deletes"))
    now = context.lake.clock.now()
    if "older_than" in arguments:
        age = now - moment_of(context, "older_than", arguments["older_than"])
        rules = replace(rules, retained=max(age, dt.timedelta()))
    if not arguments.dry_run:
        context.lake.clock.require(table.latest())
    done = kept.expire_snapshots(context.lake, table, rules, dry_run=arguments.dry_run, now_millis=int(now.timestamp() * 1000))
    return ResultSet.of_rows(_REMOVED, [_removed(done, dry_run=arguments.dry_run)])


def _given_options(arguments: Arguments, group: OptionGroup = TABLE_OPTIONS) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in filter(None, arguments.get("options", "").split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise AnalysisError(f"options => '{arguments['options']}': 'key=value,…' is expected.", fragment=pair.strip())
        options[key.strip()] = value.strip()
    group.check(options)
    return options


def _by_kind(positional: Sequence[object]) -> Sequence[str] | None:
    """``rollback_to('t', 5)`` is a snapshot, ``rollback_to('t', 'x')`` a tag."""
    return ("table", "snapshot_id", DRY_RUN) if len(positional) > 1 and isinstance(positional[1], int) else None


@procedure(
    "rollback_to",
    required=1,
    other_order=_by_kind,
    table=str,
    tag=str,
    snapshot_id=int,
    timestamp=str,
    watermark=int,
    from_snapshot=int,
)
def rollback_to(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Make a snapshot the latest again: by id, tag, time or watermark; ``from_snapshot`` is the one that must be the latest until then."""
    keys = {"tag": "scan.tag-name", "snapshot_id": "scan.snapshot-id", "timestamp": "scan.timestamp"}
    targets = {option: str(arguments[name]) for name, option in keys.items() if name in arguments}
    if len(targets) + ("watermark" in arguments) != 1:
        raise AnalysisError("sys.rollback_to takes one of tag, snapshot_id, timestamp and watermark.")
    return _roll_back(context, arguments, targets or _to_watermark(context, arguments))


@procedure("rollback", required=1, table=str, version=str, snapshot=int, tag=str)
def rollback(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Spark's name of `rollback_to`: by a snapshot's id or a tag, either of which may stand as ``version``."""
    targets = [(name, str(arguments[name])) for name in ("version", "snapshot", "tag") if name in arguments]
    if len(targets) != 1:
        raise AnalysisError("sys.rollback takes one of version, snapshot and tag.")
    ((name, value),) = targets
    is_tag = name == "tag" or (name == "version" and not value.isdecimal())
    of_kind = {key: argument for key, argument in arguments.items() if key in ("table", DRY_RUN)} | ({"tag": value} if is_tag else {})
    return _roll_back(context, Arguments(of_kind), {"scan.tag-name" if is_tag else "scan.snapshot-id": value})


@procedure("rollback_to_timestamp", required=2, table=str, timestamp=int)
def rollback_to_timestamp(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Make the snapshot of a time, in milliseconds since the epoch, the latest again."""
    return _roll_back(context, arguments, {"scan.timestamp-millis": str(arguments["timestamp"])})


@procedure("rollback_to_watermark", required=2, table=str, watermark=int)
def rollback_to_watermark(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Make the last snapshot with at most a watermark the latest again."""
    return _roll_back(context, arguments, _to_watermark(context, arguments))


def _to_watermark(context: ExecutionContext, arguments: Arguments) -> dict[str, str]:
    """The last snapshot that came no later than a watermark: what is read by `scan.watermark` is the first that reached one."""
    table, wanted = table_to_write(context, arguments), int(arguments["watermark"])
    history = context.lake.snapshots(table)
    reached = [s.id for s in history if s.watermark is not None and NO_WATERMARK < s.watermark <= wanted]
    if not reached:
        of = str(table.identifier)
        earliest = next((s.watermark for s in history if s.watermark is not None and s.watermark > NO_WATERMARK), None)
        known = "none of its snapshots has one" if earliest is None else f"the earliest is {earliest}"
        raise SnapshotNotExist(f"Table {of} has no snapshot with a watermark of at most {wanted}: {known}.", resource_name=of)
    return {"scan.snapshot-id": str(reached[-1])}


def _roll_back(context: ExecutionContext, arguments: Arguments, options: dict[str, str]) -> ResultSet:
    table = table_to_write(context, arguments)
    latest = table.latest()
    tag = arguments.get("tag")
    wanted = whole_number(options.get("scan.snapshot-id", ""))
    if wanted is not None and (kept_by := context.lake.tags.of_expired(table, wanted)) is not None:
        tag, options = kept_by.name, {"scan.tag-name": kept_by.name}
    to = context.lake.resolve(table, options, zone=context.zone)
    if to is None or latest is None:
        raise SnapshotNotExist(f"Table {table.identifier} has no snapshots to roll back to.", resource_name=str(table.identifier))
    expected = arguments.get("from_snapshot")
    try:
        if expected not in (None, latest.id):
            raise StaleRollback(latest.id, expected)
        done = kept.rollback(context.lake, table, to, tag=tag, expected=expected, dry_run=arguments.dry_run, claim=context.idempotency)
    except StaleRollback:
        raise CommitConflict(str(table.identifier), expected=str(expected)) from None
    columns = [
        ResultColumn("previous_snapshot_id", _COUNT),
        ResultColumn("current_snapshot_id", _COUNT),
        ResultColumn("tags_dropped", _COUNT),
        ResultColumn("data_files", _COUNT),
        ResultColumn("bytes", _COUNT),
        DRY_COLUMN,
    ]
    return ResultSet.of_rows(columns, [(latest.id, to.id, len(done.tags), done.data_files, done.size, arguments.dry_run)])


# Partitions


def _partition_rows(partitions: Sequence[Partition], column: str, *, dry_run: bool) -> ResultSet:
    columns = [
        ResultColumn(column, STRING), ResultColumn("files", _COUNT), ResultColumn("rows", _COUNT), ResultColumn("bytes", _COUNT),
        DRY_COLUMN,
    ]  # fmt: skip
    return ResultSet.of_rows(columns, [(p.name, p.file_count, p.record_count, p.file_size, dry_run) for p in partitions])


@procedure(
    "expire_partitions",
    required=1,
    table=str,
    expiration_time=str,
    timestamp_formatter=str,
    timestamp_pattern=str,
    expire_strategy=str,
    max_expires=int,
    options=str,
)
def expire_partitions(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Drop partitions that are too old, by their values or by when something last came."""
    table = table_to_write(context, arguments)
    keys = {
        "expiration_time": "partition.expiration-time",
        "timestamp_formatter": "partition.timestamp-formatter",
        "timestamp_pattern": "partition.timestamp-pattern",
        "expire_strategy": "partition.expiration-strategy",
        "max_expires": "partition.expiration-max-num",
    }
    options = _given_options(arguments) | {key: str(arguments[name]) for name, key in keys.items() if name in arguments}
    rules = PartitionExpiry.of(table, options)
    if rules is None:
        reason = "has no partitions" if not table.schema.partition_keys else "says no time: give expiration_time => '7 d'"
        raise AnalysisError(f"Table {table.identifier} {reason}.", fragment="expire_partitions")
    check_together({**table.schema.options, **options}, table.schema.partition_keys, options)
    if not arguments.dry_run:
        context.lake.clock.require(table.latest())
    old = expired_partitions(context.lake.catalog, table, context.lake.partitions(table, table.latest()), rules)
    if not arguments.dry_run:
        expire_in_batches(context.lake, table, old, rules, claim=context.idempotency)
    return _partition_rows(old, "expired_partitions", dry_run=arguments.dry_run)


def _named(context: ExecutionContext, table: LakeTable, text: str) -> list[Partition]:
    present = by_row(table.schema, context.lake.partitions(table, table.latest()))
    wanted = named(table.schema, present, parse_specs(text, table.schema, str(table.identifier)))
    return [partition for row, partition in present.items() if row in wanted]


def _others(table: LakeTable, partitions: Sequence[Partition], text: str) -> list[dict[str, str]]:
    """What is named and is none of these partitions."""
    rows = by_row(table.schema, partitions)
    specs = parse_specs(text, table.schema, str(table.identifier))
    return [spec for spec in specs if not named(table.schema, rows, [spec])]


@procedure("drop_partition", required=2, many="partitions", table=str, partitions=str)
def drop_partition(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Remove partitions with all their rows, and those that were made without any; earlier snapshots still hold the rows."""
    table = table_to_write(context, arguments)
    partitions = _named(context, table, arguments["partitions"])
    others = _others(table, partitions, arguments["partitions"])
    known = without_rows(context.lake, table, [meant for spec in others for meant in readings(spec)])
    if not arguments.dry_run:
        drop_named(context.lake, table, partitions, list(known.values()), claim=context.idempotency)
    return _partition_rows([*partitions, *map(_empty, known)], "dropped_partitions", dry_run=arguments.dry_run)


def _without_rows(table: LakeTable, spec: dict[str, str]) -> Partition:
    values = None
    if set(spec) == set(table.schema.partition_keys):
        values = next((typed for meant in readings(spec)[1:] or [spec] if (typed := values_of(table, meant)) is not None), None)
    if values is None:
        named, keys = ", ".join(f"{key}={text}" for key, text in spec.items()), ", ".join(table.schema.partition_keys)
        raise AnalysisError(
            f"Table {table.identifier} has no partition ({named}); one without rows is named by values of all its columns ({keys}).",
            fragment=named,
        )
    return _empty("/".join(partition_dirs(table.schema, values)), values)


def _empty(name: str, values: Sequence[object] = ()) -> Partition:
    return Partition(values=tuple(values), name=name, record_count=0, file_count=0, file_size=0, last_file_millis=0)


@procedure("mark_partition_done", required=2, many="partitions", table=str, partitions=str)
def mark_partition_done(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Leave a marker that says no more rows will come to the partitions (`partition.mark-done-action`), also to those without rows."""
    table = table_to_write(context, arguments)
    partitions = _named(context, table, arguments["partitions"])
    partitions += [_without_rows(table, spec) for spec in _others(table, partitions, arguments["partitions"])]
    if not arguments.dry_run:
        mark_done(context.lake, table, partitions)
    return _partition_rows(partitions, "done_partitions", dry_run=arguments.dry_run)


# Consumers


@procedure("reset_consumer", required=2, table=str, consumer_id=str, next_snapshot_id=int)
def reset_consumer(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Let a consumer go on elsewhere, or forget it where no snapshot is given."""
    table = table_to_write(context, arguments)
    name, following = arguments["consumer_id"], arguments.get("next_snapshot_id")
    present = {c.name: c.next_snapshot for c in read_consumers(table.files)}
    tried_before = context.idempotency is not None and context.idempotency.again  # and may have removed the file
    if following is None and name not in present and not (tried_before and is_noted(context.lake.catalog, table, name)):
        raise AnalysisError(f"Table {table.identifier} has no consumer {name}.", fragment=name)
    if following is not None:
        history = context.lake.snapshots(table)
        first, last = (history[0].id, history[-1].id + 1) if history else (1, 1)
        if not first <= following <= last:
            raise SnapshotNotExist(
                f"Consumer {name} cannot go on at snapshot {following}: table {table.identifier} keeps {first} to {last - 1}.",
                resource_name=str(following),
            )
    if not arguments.dry_run:
        if following is None:
            context.lake.forget_consumer(table, name, claim=context.idempotency)
        else:
            context.lake.reset_consumer(table, name, following, claim=context.idempotency)
    columns = [ResultColumn("consumer_id", STRING), ResultColumn("before", BigIntType()), ResultColumn("now", BigIntType()), DRY_COLUMN]
    return ResultSet.of_rows(columns, [(name, present.get(name), following, arguments.dry_run)])


@procedure("clear_consumers", required=1, table=str, including_consumers=str, excluding_consumers=str)
def clear_consumers(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Forget the consumers whose names match, all where nothing is said."""
    table = table_to_write(context, arguments)
    names = [consumer.name for consumer in read_consumers(table.files)]
    chosen = Choice(arguments, "consumers").among(names)
    gone = [name for name in names if name in chosen]
    with Steps("sys.clear_consumers") as steps:
        for name in () if arguments.dry_run else gone:  # a repeat goes on where the last one ended; with the last name all is done
            context.lake.forget_consumer(table, name, claim=context.idempotency if name == gone[-1] else None)
            steps.made()  # of some only the file
    return ResultSet.of_rows([ResultColumn("cleared_consumers", STRING), DRY_COLUMN], [(name, arguments.dry_run) for name in gone])


# Orphans


@procedure("remove_orphan_files", required=1, table=str, older_than=str, dry_run=bool, parallelism=int, mode=str)
def remove_orphan_files(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Delete what crashes and failed writes left in a table, in all of a database (``d.*``) or everywhere (``*``); one row a table."""
    name = arguments["table"]
    older = None
    if "older_than" in arguments:
        older = int(moment_of(context, "older_than", arguments["older_than"]).timestamp() * 1000)
    rows: list[tuple[Any, ...]] = []
    tables = _tables(context, name)
    doubt = context.lake.clock.look(note=False) if arguments.dry_run else None  # else nothing is removed while there is one
    context.progress.begin("looking for orphan files, table by table", total=len(tables))
    for identifier in tables:
        context.cancellation.check()
        try:
            done = remove_orphans(
                context.lake,
                context.lake.open_to_change(identifier),
                older_than_millis=older,
                dry_run=arguments.dry_run,
                threads=max(1, arguments.get("parallelism", 8)),
                check=context.cancellation.check,
            )
        except (TableNotExist, Forbidden, MetadataOnlyTable):
            if not _is_wide(name):
                raise
            continue
        except LakeError as problem:
            if not _is_wide(name):
                raise
            rows.append((str(identifier), None, None, None, alone(context, problem), arguments.dry_run))
            continue
        context.progress.advance(size=done.size)
        rows.append((str(identifier), len(done.paths), done.size, done.paths[0] if done.paths else None, doubt, arguments.dry_run))
    columns = [
        ResultColumn("table", STRING),
        ResultColumn("deletedFileCount", BigIntType()),
        ResultColumn("deletedFileTotalLenInBytes", BigIntType()),
        ResultColumn("first_file", VarCharType()),
        PROBLEM_COLUMN,
        DRY_COLUMN,
    ]
    return ResultSet.of_rows(columns, rows)


def _tables(context: ExecutionContext, name: str) -> list[Identifier]:
    if name in ("*", "*.*"):
        return [Identifier(database, table) for database in context.lake.list_databases() for table in context.lake.list_tables(database)]
    if _is_wide(name):
        database = identifier_of(context, f"{name.removesuffix('*')}`*`").database
        return [Identifier(database, table) for table in context.lake.list_tables(database)]
    return [identifier_of(context, name)]


def _is_wide(name: str) -> bool:
    """Whether it stands for more than one table; ``d.`*` `` is the table of that name."""
    return name in ("*", "*.*") or name.endswith(".*")
