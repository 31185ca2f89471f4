"""CALL sys.compact, sys.compact_database, sys.compact_manifest (`paimon-append.md` §7.4, 7.5)."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from lake import LakeTable
from lake.rewrite.compaction import Compacted, Rewriter, check_mergeable, check_rows, compact, in_threads, live_files
from model.catalog_errors import MetadataOnlyTable
from model.errors import AnalysisError, Forbidden, InvalidOption, LakeError, RewriteConflict, TableNotExist, UnsupportedType
from model.identifier import Identifier
from model.options.clustering import check_clustering, cluster_columns
from model.options.rules import check_together
from model.options.table import TABLE_OPTIONS
from model.schema.types import BigIntType
from model.snapshot import CommitKind, Snapshot
from model.wall_clock import local_wall_millis
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import (
    DRY_COLUMN,
    PROBLEM_COLUMN,
    Arguments,
    alone,
    procedure,
    require_to_choose,
    table_to_write,
)
from sql.statements.procedures.choosing import Choice
from sql.statements.procedures.partition_choice import chosen, numbers
from table.compaction.candidates import CompactionRules, CompactionTask, choose
from table.compaction.clustering import Clustering, choose_clusters, history_clusters
from table.format.formats import FileFormat
from table.format.manifests.entries import ManifestEntry
from table.write.manifest_merge import worth_merging
from table.write.snapshot_builder import CommitRequest

_THREADS = max(2, os.cpu_count() or 2)
_ATTEMPTS = 5
"""How often a sort that lost a race is planned anew."""
_SORTED = 2
"""Sorting writes its rows to Spark's scratch directory first: so much space is promised for each byte."""
_SPARK_BYTES = 1 << 30
"""Input from which the merging is spread over Spark's executors."""
_COUNT = BigIntType(nullable=False)
_COMPACTED = (
    ResultColumn("tasks", _COUNT),
    ResultColumn("files_before", _COUNT),
    ResultColumn("files_after", _COUNT),
    ResultColumn("bytes_before", _COUNT),
    ResultColumn("bytes_after", _COUNT),
    ResultColumn("rows", _COUNT),
    ResultColumn("conflicts", _COUNT),
    ResultColumn("snapshot_id", BigIntType()),
    DRY_COLUMN,
)
_MODES = ("divided", "combined")
"""How Flink makes its jobs; here there are none."""
_ORDERS = ("none", "order", "zorder", "hilbert")
_OF_ITS_ROWS = ("bucket", "bucket-key", "bucket-append-ordered")
"""What readers of a table go by: no call may write by another."""
_SPARKS_ORDER = (
    "table", "partitions", "compact_strategy", "order_strategy", "order_by", "where", "options", "partition_idle_time", "buckets",
)  # fmt: skip


def _row(done: Compacted, *, dry_run: bool) -> tuple[Any, ...]:
    last = done.snapshots[-1] if done.snapshots else None
    return (
        done.tasks, done.files_before, done.files_after, done.bytes_before, done.bytes_after, done.rows, done.conflicts, last, dry_run,
    )  # fmt: skip


def _as_spark_orders(positional: Sequence[object]) -> Sequence[str] | None:
    """Spark's third argument is the strategy, Flink's the order: which one is meant shows in the word, or in that of the fourth."""
    third, fourth = ([str(value or "").lower() for value in positional[2:4]] + ["", ""])[:2]
    return _SPARKS_ORDER if third in ("full", "minor") or (not third and fourth in _ORDERS) else None


def _database_as_spark_orders(positional: Sequence[object]) -> Sequence[str] | None:
    """Spark's second argument is tables, Flink's a mode, of which there are two."""
    second = str((positional[1] if len(positional) > 1 else None) or "")
    return ("including_databases", "including_tables", "excluding_tables", "table_options") if second and second not in _MODES else None


def _sorts(arguments: Arguments) -> bool:
    return arguments.get("order_strategy", "none") != "none" and not arguments.dry_run


@procedure(
    "compact",
    required=1,
    spark=_sorts,
    other_order=_as_spark_orders,
    table=str,
    partitions=str,
    order_strategy=str,
    order_by=str,
    options=str,
    where=str,
    partition_idle_time=str,
    compact_strategy=str,
    buckets=str,
)
def compact_table(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Merge small files, or sort what partitions hold."""
    table = _with_options(table_to_write(context, arguments), _for_one_call(arguments.get("options")))
    check_mergeable(table)
    dry_run = arguments.dry_run
    if not dry_run:
        _let_changes_first(context, table)
    strategy = arguments.get("order_strategy", "none").lower()
    if strategy != "none" or "order_by" in arguments:
        done = _sort(context, table, strategy, arguments, dry_run=dry_run)
    else:
        done = _merge(context, table, arguments, dry_run=dry_run)
    return ResultSet.of_rows(_COMPACTED, [_row(done, dry_run=dry_run)])


def _let_changes_first(context: ExecutionContext, table: LakeTable) -> None:
    """Changes of rows that have lost a race come first: merged again and again, their files would be others at each of their looks."""
    context.lake.changing_rows.let_first((table.table_id, table.identifier.branch), context.cancellation.check)


def _for_one_call(text: str | None) -> dict[str, str]:
    """Options given for one call alone: ``k=v,k2=v2``."""
    options: dict[str, str] = {}
    for pair in text.split(",") if text else ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise AnalysisError(f"options => '{text}': 'key=value,…' is expected.", fragment=pair.strip())
        parsed = {key.strip(): value.strip()}
        TABLE_OPTIONS.check(parsed)
        if key.strip() in _OF_ITS_ROWS or not TABLE_OPTIONS.known(key.strip()).mutable:
            raise AnalysisError(f"Option '{key.strip()}' cannot be given to one call; it says where existing rows lie, and in which order.")
        options |= parsed
    return options


def _with_options(table: LakeTable, options: Mapping[str, str]) -> LakeTable:
    """The table under options for one call; raises `InvalidOption` for those that ALTER TABLE would refuse beside its own."""
    if not options:
        return table
    schema = replace(table.schema, options={**table.schema.options, **options})
    check_together(schema.options, schema.partition_keys, options)
    check_clustering(schema.options, schema.find, schema.bucket)
    return replace(table, schema=schema)


def _full(arguments: Arguments, *, unless_said: bool = True) -> bool:
    strategy = arguments.get("compact_strategy", "full" if unless_said else "minor").lower()
    if strategy not in ("full", "minor"):
        raise AnalysisError(f"compact_strategy => '{strategy}': 'full' or 'minor' is expected.", fragment=strategy)
    return bool(strategy == "full")


def _entries(table: LakeTable, arguments: Arguments) -> list[ManifestEntry]:
    buckets = None
    if "buckets" in arguments:
        if table.schema.bucket <= 0:
            raise AnalysisError(f"Table {table.identifier} has no buckets to choose from ('bucket' = '-1').", fragment="buckets")
        buckets = numbers(arguments["buckets"])
    entries = live_files(table, None, buckets)
    partitions = chosen(table, entries, arguments)
    return [entry for entry in entries if entry.partition in partitions]


def _merge(context: ExecutionContext, table: LakeTable, arguments: Arguments, *, dry_run: bool) -> Compacted:
    clustering = Clustering.of(table.schema)
    full = _full(arguments, unless_said=clustering is None)
    if clustering is not None:
        tasks = _clusters(table, clustering, arguments, full=full)
        return _expected(table, tasks) if dry_run else _run(context, table, tasks)
    # Paimon's batch run of a table without buckets knows no strategy; said in so many words, "full" leaves no small file over.
    said = arguments.get("compact_strategy", "").lower() == "full"
    entries = _entries(table, arguments)
    tasks = choose(table.schema, entries, CompactionRules.of(table.schema), full=full, all_of_them=said)
    if dry_run:
        return _expected(table, tasks)
    return _run(context, table, tasks)


def _clusters(table: LakeTable, clustering: Clustering, arguments: Arguments, *, full: bool) -> list[CompactionTask]:
    """What incremental clustering would sort together: of the partitions chosen, and of old ones where some were chosen."""
    if "buckets" in arguments or "partition_idle_time" in arguments:
        raise AnalysisError("'partition_idle_time' and 'buckets' do not go with incremental clustering ('clustering.incremental').")

    def columns_at(schema_id: int) -> tuple[str, ...]:
        return cluster_columns(table.schema_at(schema_id).options)

    entries = live_files(table)
    partitions = chosen(table, entries, arguments)
    tasks = list(choose_clusters(clustering, (e for e in entries if e.partition in partitions), full=full, columns_at=columns_at))
    if "partitions" in arguments or "where" in arguments:
        tasks += history_clusters(clustering, entries, partitions, now_millis=local_wall_millis(), columns_at=columns_at)
    return tasks


def _run(context: ExecutionContext, table: LakeTable, tasks: Sequence[CompactionTask]) -> Compacted:
    if not tasks:
        return Compacted()
    size = sum(task.input_bytes for task in tasks) * (1 if tasks[0].level is None else _SORTED)
    with context.lake.reserve.promise(size):
        return _merged(context, table, tasks)


def _merged(context: ExecutionContext, table: LakeTable, tasks: Sequence[CompactionTask]) -> Compacted:
    check, progress = context.cancellation.check, context.progress
    files, size = sum(len(task.inputs) for task in tasks), sum(task.input_bytes for task in tasks)

    def commit(table: LakeTable, request: CommitRequest) -> Snapshot:
        progress.begin(f"committing {table.identifier}", total=1)
        return context.lake.commit(table, request)

    if tasks[0].level is not None:
        progress.begin(f"sorting files of {table.identifier} (Spark tasks)")
        with context.spark.running(context.statement_id) as session:
            return compact(commit, table, tasks, rewriter=_cluster_rewriter(session), check=check)
    if size < _SPARK_BYTES:
        progress.begin(f"merging files of {table.identifier}", total=files, total_bytes=size)

        def told(task: CompactionTask) -> None:
            progress.advance(len(task.inputs), task.input_bytes)

        return compact(commit, table, tasks, rewriter=in_threads(_THREADS, told), check=check)
    progress.begin(f"merging files of {table.identifier} (Spark tasks)")
    with context.spark.running(context.statement_id) as session:
        return compact(commit, table, tasks, rewriter=_spark_rewriter(session), check=check)


def _spark_rewriter(session: Any) -> Rewriter:
    from sql.spark.write.compaction import on_spark

    return on_spark(session)


def _cluster_rewriter(session: Any) -> Rewriter:
    from sql.spark.write.sorting import cluster_files

    return cluster_files(session)


def _expected(table: LakeTable, tasks: Sequence[CompactionTask]) -> Compacted:
    """What the tasks would come to; sizes after are those before."""
    target = FileFormat.of(table.schema).target_bytes
    size = sum(task.input_bytes for task in tasks)
    return Compacted(
        tasks=len(tasks),
        files_before=sum(len(task.inputs) for task in tasks),
        files_after=sum(max(1, math.ceil(task.input_bytes / target)) for task in tasks),
        bytes_before=size,
        bytes_after=size,
        rows=sum(task.input_rows for task in tasks),
    )


def _sort(context: ExecutionContext, table: LakeTable, strategy: str, arguments: Arguments, *, dry_run: bool) -> Compacted:
    columns = [name.strip() for name in arguments.get("order_by", "").split(",") if name.strip()]
    if strategy == "none" or not columns:
        raise AnalysisError("Sorting takes both: order_strategy => 'order' | 'zorder' | 'hilbert' and order_by => 'column,…'.")
    if strategy not in ("order", "zorder", "hilbert"):
        raise AnalysisError(f"order_strategy => '{strategy}': one of order, zorder, hilbert is expected.", fragment=strategy)
    if Clustering.of(table.schema) is not None:
        raise AnalysisError(f"Table {table.identifier} is sorted by its 'clustering.columns'; CALL sys.compact without order_strategy.")
    if table.schema.bucket > 0:
        raise AnalysisError(f"Table {table.identifier} keeps its rows in the order they came; only tables with 'bucket' = '-1' are sorted.")
    if "partition_idle_time" in arguments or "buckets" in arguments:
        raise AnalysisError("'partition_idle_time' and 'buckets' do not go with sorting.")
    for name in columns:
        field = table.schema.field(name, table=str(table.identifier))
        if field.type.root in ("ARRAY", "MAP", "ROW"):
            raise UnsupportedType(f"Column {name} is {field.type.sql()}, by which rows cannot be sorted.")
    for _ in range(_ATTEMPTS - 1):
        # The table's own compaction may be at work on the same files; what it made of them is sorted then.
        with contextlib.suppress(RewriteConflict):
            return _sort_once(context, table, strategy, columns, arguments, dry_run=dry_run)
    return _sort_once(context, table, strategy, columns, arguments, dry_run=dry_run)


def _sort_once(
    context: ExecutionContext, table: LakeTable, strategy: str, columns: Sequence[str], arguments: Arguments, *, dry_run: bool
) -> Compacted:
    entries = _entries(table, arguments)
    if dry_run or not entries:
        tasks = [CompactionTask(partition=p, bucket=0, inputs=tuple(e for e in entries if e.partition == p)) for p in _partitions(entries)]
        return _expected(table, tasks)
    return _sorted(context, table, entries, strategy, columns)


def _partitions(entries: Sequence[ManifestEntry]) -> list[bytes]:
    return list(dict.fromkeys(entry.partition for entry in entries))


def _sorted(
    context: ExecutionContext, table: LakeTable, entries: Sequence[ManifestEntry], strategy: str, columns: Sequence[str]
) -> Compacted:
    from sql.spark.session.damage import Reading
    from sql.spark.session.errors import translating
    from sql.spark.write.sorting import Order, sort_files, text_bytes

    order = Order(columns=columns, strategy=strategy, text_bytes=text_bytes(table.schema))
    context.progress.begin(f"sorting files of {table.identifier} (Spark tasks)")
    reading, lost = Reading(table), context.spark.lost
    space = context.lake.reserve.promise(_SORTED * sum(entry.file.file_size for entry in entries))
    with space, table.write() as write:
        with context.spark.running(context.statement_id) as session, translating(context.source, {}, lost, reading):
            written = write.add(sort_files(session, table, entries, order))
        check_rows(table, entries, written)
        context.cancellation.check()
        # Exactly the files that were read are replaced: rows appended meanwhile stay, where Paimon's overwrite would take them.
        snapshot = context.lake.commit(table, write.request(CommitKind.OVERWRITE, deletes=tuple(entries), operation="COMPACT"))
    return Compacted(
        tasks=len(_partitions(entries)),
        files_before=len(entries),
        files_after=len(written),
        bytes_before=sum(entry.file.file_size for entry in entries),
        bytes_after=sum(new.file.file_size for new in written),
        rows=sum(new.file.row_count for new in written),
        snapshots=(snapshot.id,),
    )


@procedure(
    "compact_database",
    required=0,
    other_order=_database_as_spark_orders,
    including_databases=str,
    mode=str,
    including_tables=str,
    excluding_tables=str,
    table_options=str,
    partition_idle_time=str,
    compact_strategy=str,
)
def compact_database(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Merge the small files of every table whose name matches; one row each."""
    dry_run = arguments.dry_run
    if (mode := arguments.get("mode", _MODES[0])) not in _MODES:
        raise AnalysisError(f"mode => '{mode}': {' or '.join(_MODES)} is expected.", fragment="mode")
    table_arguments = Arguments((key, arguments[key]) for key in ("partition_idle_time", "compact_strategy") if key in arguments)
    _full(table_arguments)
    options = _for_one_call(arguments.get("table_options"))
    counts = [ResultColumn(column.name, BigIntType()) for column in _COMPACTED[:-1]]
    rows: list[tuple[Any, ...]] = []
    for identifier in matching_tables(context, arguments):
        context.cancellation.check()
        try:
            table = _with_options(context.lake.open_to_write(identifier), options)
            require_to_choose(context, table, table_arguments)
            check_mergeable(table)
            if not dry_run:
                _let_changes_first(context, table)
            done = _merge(context, table, table_arguments, dry_run=dry_run)
        except (TableNotExist, UnsupportedType, Forbidden, MetadataOnlyTable):
            continue  # dropped meanwhile, or nothing this server may rewrite
        except LakeError as problem:
            outcome = problem.message if isinstance(problem, InvalidOption) else alone(context, problem)
            rows.append((str(identifier), *[None] * len(counts), outcome, dry_run))
            continue
        *counted, _ = _row(done, dry_run=dry_run)
        rows.append((str(identifier), *counted, None, dry_run))
    return ResultSet.of_rows([ResultColumn("table", STRING), *counts, PROBLEM_COLUMN, DRY_COLUMN], rows)


def matching_tables(context: ExecutionContext, arguments: Arguments) -> list[Identifier]:
    """The tables regular expressions choose, as Paimon's database-wide calls do; databases by their names, tables by theirs."""
    databases, tables = Choice(arguments, "databases"), Choice(arguments, "tables")
    names = context.lake.list_databases()
    included = databases.among(names)
    return [
        Identifier(database, name)
        for database in names
        if database in included
        for name in tables.among_tables(database, context.lake.list_tables(database))
    ]


@procedure("compact_manifest", required=1, table=str, options=str)
def compact_manifest(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Merge the manifests of the latest snapshot; nothing is published where there is nothing to merge."""
    table = _with_options(table_to_write(context, arguments), _for_one_call(arguments.get("options")))
    latest = table.latest()
    before = table.files.manifests_of(latest) if latest else []
    worth = worth_merging(table.schema, before)
    dry_run = arguments.dry_run
    after, snapshot_id = len(before), None
    if worth and dry_run:
        after = len(before) - len(worth) + 1
    elif worth:
        request = CommitRequest(kind=CommitKind.COMPACT, commit_user=str(uuid4()), operation="COMPACT", merge_manifests=True)
        with context.lake.reserve.promise(sum(manifest.file_size for manifest in worth)):
            snapshot = context.lake.commit(table, request)
        after, snapshot_id = len(table.files.base_manifests(snapshot)), snapshot.id
    columns = [
        ResultColumn("manifests_before", _COUNT),
        ResultColumn("manifests_after", _COUNT),
        ResultColumn("snapshot_id", BigIntType()),
        DRY_COLUMN,
    ]
    return ResultSet.of_rows(columns, [(len(before), after, snapshot_id, dry_run)])
