"""``sys.tables``, ``sys.partitions`` and ``sys.all_table_options``: every table of the catalog."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from catalog.browse import TableSummary
from lake import LakeTable
from lake.inspect.browse import summaries, table_count
from model.access import table_resource
from model.catalog_errors import MetadataOnlyTable
from model.errors import DatabaseNotExist, Forbidden, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier
from model.options.masking import masked_all
from model.predicate import And, Compare, Op
from model.wall_clock import epoch_of_wall
from sql.execution.session import CATALOG
from sql.system.base import Rows, SystemScan, SystemTable, columns_of, in_batches
from table.format.layout import partition_spec

OVERALL: dict[str, SystemTable] = {}


def _overall(name: str, **columns: str) -> Callable[[Rows], Rows]:
    def register(rows: Rows) -> Rows:
        made = columns_of(columns)
        OVERALL[name] = SystemTable(name=name, columns=made, read=in_batches(made, rows))
        return rows

    return register


def _summaries(scan: SystemScan) -> Iterator[TableSummary]:
    """The tables the condition on their names leaves."""
    parts = scan.predicate.parts if isinstance(scan.predicate, And) else (scan.predicate,)
    wanted = {p.column: str(p.value) for p in parts if isinstance(p, Compare) and p.op is Op.EQ}
    return summaries(scan.lake, database=wanted.get("database_name"), table=wanted.get("table_name"))


def _opened(scan: SystemScan, summary: TableSummary) -> LakeTable | None:
    """The table; None where it is gone meanwhile."""
    try:
        return scan.lake.open(Identifier(summary.database, summary.name))
    except (TableNotExist, DatabaseNotExist, Forbidden, MetadataOnlyTable):
        return None


@_overall(
    "tables",
    database_name="STRING",
    table_name="STRING",
    table_type="STRING",
    partitioned="BOOLEAN",
    primary_key="BOOLEAN",
    owner="STRING",
    created_at="BIGINT",
    created_by="STRING",
    updated_at="BIGINT",
    updated_by="STRING",
    record_count="BIGINT",
    file_size_in_bytes="BIGINT",
    file_count="BIGINT",
    last_file_creation_time="BIGINT",
)
def tables(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Every table with its size, which is NULL for who sees only a part of it; all of it is what the catalog holds."""
    for entry in _summaries(scan):
        if sizes := _sizes(scan, entry):
            yield (
                entry.database, entry.name, entry.options.get("type", "table"), entry.partitioned, entry.primary_key, entry.owner,
                entry.created_millis, entry.created_by, entry.changed_millis, entry.updated_by, *sizes,
            )  # fmt: skip


def _moment(last_file_millis: int | None) -> int | None:
    """Milliseconds since 1970 of what files tell by the wall clock; 0 is no file."""
    return last_file_millis and epoch_of_wall(last_file_millis)


def _sizes(scan: SystemScan, summary: TableSummary) -> tuple[int | None, ...] | None:
    """Rows, bytes, files and the newest of them; None for a table that is gone meanwhile."""
    if not summary.told:
        return (None, None, None, None)
    if summary.counted:
        return (summary.record_count, summary.file_size, summary.file_count, _moment(summary.last_file_millis))
    # Taken over or brought back, and never asked for since: its manifests are counted once.
    if (table := _opened(scan, summary)) is None:
        return None
    _, counts = scan.lake.totals(table) or (None, None)
    return (
        (0, 0, 0, None) if counts is None else (counts.record_count, counts.file_size, counts.file_count, _moment(counts.last_file_millis))
    )


OVERALL["tables"] = replace(OVERALL["tables"], count=lambda scan: table_count(scan.lake))


@_overall(
    "partitions",
    database_name="STRING",
    table_name="STRING",
    partition_name="STRING",
    record_count="BIGINT",
    file_size_in_bytes="BIGINT",
    file_count="BIGINT",
    last_file_creation_time="BIGINT",
    done="BOOLEAN",
)
def partitions(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Every partition of every partitioned table that the caller may read whole."""
    for summary in _summaries(scan):
        table = _opened(scan, summary) if summary.partitioned and summary.told else None
        if table is None or not scan.lake.sees_whole(table):
            continue
        listed = scan.lake.partitions(table, table.latest())
        specs = [partition_spec(table.schema, p.values) for p in listed]
        for p, done in zip(listed, scan.lake.partitions_done(table, specs), strict=True):
            yield (
                table.identifier.database, table.identifier.table, p.name, p.record_count, p.file_size, p.file_count,
                _moment(p.last_file_millis),
                done,
            )  # fmt: skip


OVERALL["all_partitions"] = replace(OVERALL["partitions"], name="all_partitions")


@_overall("catalog_options", key="STRING NOT NULL", value="STRING NOT NULL")
def catalog_options(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """What a Paimon client says to reach this catalog, but for its address and token."""
    return [("metastore", "rest"), ("warehouse", CATALOG)]


@_overall("all_table_options", database_name="STRING", table_name="STRING", key="STRING", value="STRING")
def all_table_options(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Every option of every table."""
    for summary in _summaries(scan):
        for key, value in sorted(masked_all(summary.options).items()):
            yield summary.database, summary.name, key, value


@_overall(
    "audit_log",
    time="TIMESTAMP_LTZ(3) NOT NULL",
    principal="STRING NOT NULL",
    protocol="STRING NOT NULL",
    address="STRING",
    request_id="STRING",
    session_id="STRING",
    statement_id="STRING",
    action="STRING NOT NULL",
    outcome="STRING NOT NULL",
    error_class="STRING",
    millis="BIGINT NOT NULL",
)
def audit_log(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Who ran what, the newest first: all of it for an administrator, their own for everybody else."""
    caller = scan.lake.caller
    for row in scan.lake.audit.newest(None if caller.administrator else caller.principal):
        yield (
            row.time, row.principal, row.protocol, row.address, row.request_id, row.session, row.statement_id, row.action, row.outcome,
            row.error_class, row.millis,
        )  # fmt: skip


@_overall(
    "damaged_tables",
    database_name="STRING NOT NULL",
    table_name="STRING NOT NULL",
    branch="STRING",
    problem="STRING NOT NULL",
    statement="STRING NOT NULL",
    since="TIMESTAMP_LTZ(3) NOT NULL",
)
def damaged_tables(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Tables this server found damaged or ahead of the catalog, and the statement that helps."""
    for trouble in scan.lake.standing.troubles():
        if scan.lake.caller.sees(table_resource(trouble.table)):
            branch = None if trouble.table.branch == MAIN_BRANCH else trouble.table.branch
            since = dt.datetime.fromtimestamp(round(trouble.since, 3), dt.UTC)
            yield trouble.table.database, trouble.table.table, branch, trouble.problem, trouble.statement, since


@_overall(
    "quotas",
    holder="STRING NOT NULL",
    principal="STRING NOT NULL",
    quota="STRING NOT NULL",
    value="BIGINT NOT NULL",
    taken="BIGINT NOT NULL",
)
def quotas(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """What users and roles may take, and what is taken: all to an administrator, what binds them to everybody else."""
    for row in scan.lake.quotas.shown(scan.lake.caller):
        yield row.quota.holder.value, row.quota.principal, row.quota.name, row.quota.value, row.taken


@_overall(
    "dropped_tables",
    drop_id="BIGINT NOT NULL",
    database_name="STRING NOT NULL",
    table_name="STRING NOT NULL",
    table_id="STRING NOT NULL",
    dropped_at="TIMESTAMP_LTZ(3) NOT NULL",
    dropped_by="STRING",
    expires_at="TIMESTAMP_LTZ(3) NOT NULL",
    dropped_with="BIGINT",
    record_count="BIGINT",
    file_size_in_bytes="BIGINT",
    location="STRING NOT NULL",
)
def dropped_tables(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """What UNDROP TABLE can bring back, the newest drop first; sizes are the latest snapshot's, NULL for who sees a part of the table."""
    for row in scan.lake.dropped_tables():
        yield (
            row.drop_id, row.database, row.name, str(row.table_id), row.dropped_at, row.dropped_by, row.expires_at, row.dropped_with,
            row.record_count, row.file_size, row.location,
        )  # fmt: skip
