"""CALL sys.doctor: what a table suffers from, in numbers, and the statement that mends it."""

from __future__ import annotations

import os

from lake import LakeTable
from model.options.table import TABLE_OPTIONS
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import Arguments, procedure, table_of
from table.retention.health import Finding, examine

WRITERS = os.cpu_count() or 1
"""Tasks that write at the same time."""


@procedure("doctor", required=1, only_looks=True, table=str)
def doctor(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Look at a table's files and say what could be better; no rows for a table in good shape."""
    table = table_of(context, arguments)
    context.lake.require_whole(table, "files")
    advice = findings(table)
    columns = [ResultColumn("finding", STRING), ResultColumn("reason", STRING), ResultColumn("statement", STRING)]
    return ResultSet.of_rows(columns, [(finding.what, finding.why, finding.statement) for finding in advice])


def findings(table: LakeTable) -> list[Finding]:
    """What could be better about a table."""
    write_only = TABLE_OPTIONS.read(table.schema.options, "write-only")
    entries = table.files.live_entries(table.latest())
    return examine(table.schema, entries, table=table.identifier, write_only=write_only, writers=WRITERS)
