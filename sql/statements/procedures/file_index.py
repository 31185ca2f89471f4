"""CALL sys.rewrite_file_index (`paimon-append.md` §9.1)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from lake.rewrite.compaction import live_files
from lake.rewrite.file_index import rebuild, to_index
from model.schema.types import BigIntType
from sql.execution.results import ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, DRY_RUN, Arguments, procedure, table_to_write
from sql.statements.procedures.partition_choice import chosen

_THREADS = max(2, os.cpu_count() or 2)
_COUNT = BigIntType(nullable=False)
_SPEC = re.compile(r"\s*[^\s=,;/]+=[^\s=<>,;/]*([,;/]\s*[^\s=,;/]+=[^\s=<>,;/]*)*\s*")


def _as_flink_orders(positional: Sequence[object]) -> Sequence[str] | None:
    """Flink's second argument is partitions (``dt=2026-01-01,h=2``), Spark's a condition: which one is meant shows in its form."""
    is_spec = len(positional) > 1 and isinstance(positional[1], str) and _SPEC.fullmatch(positional[1])
    return ("table", "partitions", "where", DRY_RUN) if is_spec else None


@procedure("rewrite_file_index", required=1, other_order=_as_flink_orders, table=str, where=str, partitions=str)
def rewrite_file_index(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Give the files that are there the indexes the table's options declare; rows are read and not rewritten."""
    table = table_to_write(context, arguments)
    live = live_files(table)
    partitions = chosen(table, live, arguments)
    entries = to_index(table, [entry for entry in live if entry.partition in partitions])
    snapshot = None

    def check() -> None:
        context.cancellation.check()
        context.lake.reserve.require()  # before each file: an index is small beside it, and all of them together need not be

    if entries and not arguments.dry_run:
        snapshot = rebuild(context.lake.commit, table, entries, threads=_THREADS, check=check)
    columns = [
        ResultColumn("written_partitions", _COUNT),
        ResultColumn("written_indexes", _COUNT),
        ResultColumn("bytes_read", _COUNT),
        ResultColumn("snapshot_id", BigIntType()),
        DRY_COLUMN,
    ]
    row = (
        len({e.partition for e in entries}),
        len(entries),
        sum(e.file.file_size for e in entries),
        snapshot and snapshot.id,
        arguments.dry_run,
    )
    return ResultSet.of_rows(columns, [row])
