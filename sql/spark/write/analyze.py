"""Statistics of a table's columns, counted by Spark in one pass (`paimon-append.md` §3, statistics)."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lake import LakeTable
from model.schema.types import AtomicType, Field
from model.snapshot import Snapshot
from sql.spark.read.reads import dataframe, named
from table.scan.planning.entry_scan import plan_scan

_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4, "TIME": 4, "TIMESTAMP": 8}
_TEXTS = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})


def column_statistics(session: SparkSession, table: LakeTable, snapshot: Snapshot, columns: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """The number of rows, and for each column what Paimon's statistics file holds of it."""
    fields = [field for field in (table.schema.field(name) for name in columns) if isinstance(field.type, AtomicType)]
    wanted: list[Column] = [F.count(F.lit(1)).alias("rows")]
    for at, field in enumerate(fields):
        wanted += _aggregates(at, field)
    frame = dataframe(session, table, plan_scan(table.files, table.schema, snapshot))
    row = frame.agg(*wanted).collect()[0].asDict()
    return int(row["rows"]), {field.name: _of(row, at, field) for at, field in enumerate(fields)}


def _aggregates(at: int, field: Field) -> list[Column]:
    column = named(field.name)
    aggregates = [F.approx_count_distinct(column).alias(f"d{at}"), F.count_if(column.isNull()).alias(f"n{at}")]
    if field.type.root in _TEXTS:
        size = F.octet_length(column)
        aggregates += [F.avg(size).alias(f"a{at}"), F.max(size).alias(f"l{at}")]
    if field.type.root not in ("BINARY", "VARBINARY"):
        aggregates += [F.min(column).alias(f"lo{at}"), F.max(column).alias(f"hi{at}")]
    return aggregates


def _of(row: dict[str, Any], at: int, field: Field) -> dict[str, Any]:
    width = _WIDTHS.get(field.type.root, 16)
    average, longest = row.get(f"a{at}", width), row.get(f"l{at}", width)
    body = {
        "colId": field.id,
        "distinctCount": row[f"d{at}"],
        "min": _text(row.get(f"lo{at}")),
        "max": _text(row.get(f"hi{at}")),
        "nullCount": row[f"n{at}"],
        "avgLen": None if average is None else round(average),
        "maxLen": longest,
    }
    return {key: value for key, value in body.items() if value is not None}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"  # as Java reads it
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    return str(value)
