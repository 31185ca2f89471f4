"""COUNT, MIN and MAX from metadata, where that is exact (`paimon-append.md` §4.6, trap 34)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from model.schema.schema import Schema
from table.format.deletions import deleted_rows
from table.format.rows.stats import ColumnStats
from table.format.store import TableFiles
from table.scan.planning.entry_scan import PlannedFile, ScanPlan, exactly, file_stats

_EXACT = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME", "TIMESTAMP", "DECIMAL"})
"""Types whose stored bounds are the values themselves: not shortened, no NaN, no second zero."""


class Function(StrEnum):
    """Aggregates metadata may know."""

    COUNT = "COUNT"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``COUNT(*)`` (no column), ``COUNT(c)``, ``MIN(c)`` or ``MAX(c)``."""

    function: Function
    column: str | None = None


def exact_aggregates(files: TableFiles, schema: Schema, plan: ScanPlan, wanted: Sequence[Aggregate]) -> list[object] | None:
    """The aggregates over all rows of a plan without filter, or None where metadata cannot tell them exactly."""
    stats = file_stats(files, schema, [a.column for a in wanted if a.column is not None])
    answers: list[object] = []
    for aggregate in wanted:
        if plan.deleted and aggregate.column is not None:
            return None  # nobody noted what the deleted rows held
        answer = _rows(files, plan) if aggregate.column is None else _one(schema, plan.files, aggregate.function, aggregate.column, stats)
        if answer is _UNKNOWN:
            return None
        answers.append(answer)
    return answers


_UNKNOWN = object()


def _rows(files: TableFiles, plan: ScanPlan) -> int:
    """The rows of a plan's files that are not deleted."""
    vectors = (
        ((planned_file.vector, planned_file.file.row_count) for planned_file in plan.files if planned_file.vector is not None)
        if plan.deleted
        else ()
    )
    return plan.kept_rows - sum(deleted_rows(files, vector, rows) for vector, rows in vectors)


def _one(schema: Schema, planned: Sequence[PlannedFile], function: Function, column: str, stats: Any) -> object:
    field = schema.field(column)
    bounds: list[Any] = []
    nulls = 0
    for planned_file in planned:
        known = _of_file(schema, planned_file, column, stats)
        if known is None or known.null_count is None:
            return _UNKNOWN
        nulls += known.null_count
        if known.null_count >= planned_file.file.row_count:
            continue
        bound = known.min if function is Function.MIN else known.max
        if function is not Function.COUNT and (bound is None or field.type.root not in _EXACT):
            return _UNKNOWN
        bounds.append(bound)
    if function is Function.COUNT:
        return sum(p.file.row_count for p in planned) - nulls
    return (min if function is Function.MIN else max)(bounds, default=None)


def _of_file(schema: Schema, planned: PlannedFile, column: str, stats: Any) -> ColumnStats | None:
    if column in schema.partition_keys:
        value = planned.partition[schema.partition_keys.index(column)]
        known = exactly(value)
        return known if value is not None else ColumnStats(null_count=planned.file.row_count)
    stats_of_column: ColumnStats | None = stats(planned.file).get(column)
    return stats_of_column
