"""CALL sys.analyze_table: statistics of a table's columns, kept with its snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from lake import Lake, LakeTable
from model.errors import AnalysisError
from model.schema.types import BigIntType
from model.snapshot import CommitKind
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, Arguments, procedure, table_to_write


def _on_spark(_: Arguments) -> bool:
    return True


@procedure("analyze_table", required=1, spark=_on_spark, table=str, columns=str)
def analyze_table(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Count rows, distinct values, NULLs and bounds of some columns or all, and commit them as an ANALYZE snapshot."""
    from sql.spark.session.damage import Reading
    from sql.spark.session.errors import translating
    from sql.spark.write.analyze import column_statistics

    table = table_to_write(context, arguments)
    context.lake.require_whole(table, "statistics")
    if not arguments.dry_run:
        context.lake.reserve.require()
    latest = table.latest()
    if latest is None:
        raise AnalysisError(f"Table {table.identifier} has no rows to analyze.")
    names = [name.strip() for name in arguments.get("columns", "").split(",") if name.strip()] or list(table.schema.field_names)
    for name in names:
        table.schema.field(name, table=str(table.identifier))
    reading, lost = Reading(table), context.spark.lost
    with context.spark.running(context.statement_id) as session, translating(context.source, {}, lost, reading):
        rows, statistics = column_statistics(session, table, latest, names)
    size = sum(entry.file.file_size for entry in table.files.live_entries(latest))
    body = {
        "snapshotId": latest.id, "schemaId": latest.schema_id, "mergedRecordCount": rows, "mergedRecordSize": size, "colStats": statistics,
    }  # fmt: skip
    if not arguments.dry_run:
        commit_statistics(context.lake, table_to_write(context, arguments), body)
    columns = [
        ResultColumn("column", STRING), ResultColumn("distinct_count", BigIntType()), ResultColumn("null_count", BigIntType()),
        ResultColumn("record_count", BigIntType(nullable=False)), DRY_COLUMN,
    ]  # fmt: skip
    return ResultSet.of_rows(
        columns, [(name, column["distinctCount"], column["nullCount"], rows, arguments.dry_run) for name, column in statistics.items()]
    )


def commit_statistics(lake: Lake, table: LakeTable, body: Mapping[str, Any]) -> None:
    """Write the statistics of a snapshot, in Paimon's form, to a file of their own, and commit an ANALYZE snapshot that names it."""
    name = f"stat-{uuid4()}-0"
    path = table.files.layout.statistics_file(name)
    with table.write() as write:
        write.add_paths([path])
        table.files.io.write(path, json.dumps(body, ensure_ascii=False).encode())
        lake.commit(table, write.request(CommitKind.ANALYZE, paths=[path], statistics=name, operation="ANALYZE"))
