"""Where in a table's files the rows lie for which a condition is true, as Spark decides it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from lake import LakeTable
from lake.rewrite.change_rows import Changes, deletion_of
from model.access import ReadRules
from model.schema.types import BigIntType
from model.snapshot import Snapshot
from sql.analysis.predicates import pushed
from sql.analysis.references import TableReference
from sql.execution.results import STRING, ResultColumn
from sql.spark.read.deletions import read_by_arrow
from sql.spark.read.prepared import TARGET, prepared
from sql.spark.read.reads import dataframe, format_in_spark, named, tagged
from sql.spark.read.results import FEW_ROWS, in_arrow, rows_at, write_rows
from sql.spark.read.visible import visible
from sql.spark.session.damage import Reading
from sql.statements.base import ExecutionContext
from table.scan.entry_scan import PlannedFile, ScanPlan, plan_scan
from table.scan.verify import sound
from table.write.copy_on_write import Positions

FILE, ROW = "__sluice_file", "__sluice_row"
"""Columns beside a table's that tell where a row lies: what stands for its file, and its number there."""
_PLACES = (ResultColumn("file", STRING), ResultColumn("row", BigIntType()))


class _Numbered(NamedTuple):
    """Rows with where they lie."""

    frame: DataFrame
    told: dict[str, PlannedFile]
    """The files, by what stands beside their rows."""


def rows_where(context: ExecutionContext, query: exp.Expr, table: LakeTable, snapshot: Snapshot | None, rules: ReadRules) -> Changes:
    """The deletion of the rows of a snapshot that the query over the table gives, and that the rules leave its caller."""
    query = query.copy()
    query.set("expressions", [exp.column(FILE, quoted=True), exp.column(ROW, quoted=True)])
    query.args["from_"].this.meta[TARGET] = True
    rows = TargetRows(table, snapshot, rules, query)
    files = rows.files

    positions: dict[str, list[Positions]] = {}
    with prepared(context, query, target=rows.source) as query_on_spark:
        context.cancellation.check()
        few = sum(planned.file.row_count for planned in files.values()) <= FEW_ROWS
        frame = query_on_spark.frame
        with contextlib.closing(_collected(frame) if few else _spooled(context, frame)) as batches:
            for batch in batches:
                context.cancellation.check()
                _add(positions, batch)
    return deletion_of([(files[name], np.sort(np.concatenate(parts))) for name, parts in positions.items()])


class TargetRows:
    """The rows of a table that a query changes: as its caller sees them, each with where it lies."""

    def __init__(self, table: LakeTable, snapshot: Snapshot | None, rules: ReadRules, query: exp.Expr) -> None:
        self._table, self._snapshot, self._rules = table, snapshot, rules
        # Those of queries inside stand for columns of theirs.
        stars = any(not isinstance(star.parent, exp.Count | exp.Select) for star in query.find_all(exp.Star))
        names = {part.name for column in query.find_all(exp.Column) for part in column.parts}
        self._mentioned = None if stars or rules.restricted else names
        self.files: dict[str, PlannedFile] = {}
        """The files that were planned, by what stands beside their rows."""

    def source(self, session: SparkSession, reference: TableReference, reading: Reading) -> DataFrame:
        """The frame of the mention whose rows are changed."""
        table, rules = self._table, self._rules
        # A masked column's real values must not decide which files are read.
        plan = plan_scan(table.files, table.schema, self._snapshot, None if rules.masks else pushed(reference, table.schema))
        reading.add(table, plan)
        frame, told = _numbered(session, table, plan.files, self._mentioned)
        self.files.update(told)
        return visible(frame, table, rules, beside=(FILE, ROW), masked=False) if rules.restricted else frame


def _collected(frame: DataFrame) -> Generator[pa.RecordBatch]:
    yield from frame.toArrow().to_batches()


def _spooled(context: ExecutionContext, frame: DataFrame) -> Generator[pa.RecordBatch]:
    """The rows a bounded batch at a time: neither Spark's heap nor this process holds the files' names for each of many rows."""
    entry = context.spool.new(context.cancellation, caller=context.lake.caller)
    try:
        write_rows(in_arrow(frame, list(_PLACES)), entry.path)
        entry.finish()
        yield from rows_at(context.spool.file_io, entry.path, list(_PLACES))
    finally:
        entry.remove()


def _add(positions: dict[str, list[Positions]], batch: pa.RecordBatch) -> None:
    """Sort the rows of a batch by the files they lie in."""
    names, rows = batch.column(0).dictionary_encode(), batch.column(1).to_numpy(zero_copy_only=False)
    numbers = names.indices.to_numpy()
    for number, name in enumerate(names.dictionary.to_pylist()):
        positions.setdefault(name, []).append(rows[numbers == number])


def _numbered(session: SparkSession, table: LakeTable, files: Sequence[PlannedFile], mentioned: Collection[str] | None) -> _Numbered:
    """The rows of the files, each with what tells its file and its own number in it."""
    rounds: list[dict[str, PlannedFile]] = []
    told: dict[str, PlannedFile] = {}
    frames = []
    readable = sound(table.files, files, table.schema_at)
    numbered = {
        planned.path for planned, in_spark in zip(files, readable, strict=True) if in_spark and format_in_spark(planned) == "parquet"
    }
    for one in files:
        # Files taken over from elsewhere may have one name in several directories.
        at = next((at for at, names in enumerate(rounds) if one.file.file_name not in names), len(rounds))
        if at == len(rounds):
            rounds.append({})
        rounds[at][one.file.file_name] = one
        told[f"{at}/{one.file.file_name}"] = one
    for at, names in enumerate(rounds):
        name = F.call_function("url_decode", F.replace(F.col("_metadata.file_name"), F.lit("+"), F.lit("%2B")))
        beside = {FILE: F.concat(F.lit(f"{at}/"), name), ROW: F.col("_metadata.row_index")}
        if parquet := [one for one in names.values() if one.path in numbered]:
            frames.append(dataframe(session, table, _plan(parquet), beside=beside))
    if by_arrow := {name: one for name, one in told.items() if one.path not in numbered}:
        frames.append(_read_by_arrow(session, table, by_arrow, mentioned))
    if not frames:
        none = {FILE: F.lit(None).cast("string"), ROW: F.lit(None).cast("bigint")}
        return _Numbered(dataframe(session, table, _plan([])).withColumns(none), told)
    return _Numbered(reduce(DataFrame.unionAll, frames), told)


def _plan(files: Sequence[PlannedFile]) -> ScanPlan:
    return ScanPlan(snapshot_id=None, files=tuple(files), total_files=len(files), count_bytes=lambda: 0)


def _read_by_arrow(
    session: SparkSession, table: LakeTable, told: Mapping[str, PlannedFile], mentioned: Collection[str] | None
) -> DataFrame:
    """The rows of files whose rows Spark does not number, as those of ORC or packed with brotli; only mentioned columns hold values."""
    fields = [field for field in table.schema.fields if mentioned is None or field.name in mentioned] or list(table.schema.fields[:1])
    read = {field.name for field in fields}
    frame = read_by_arrow(session, table, list(told.values()), columns=read, beside=(FILE, ROW), names=list(told))
    return frame.select(*[tagged(named(f.name), f) for f in table.schema.fields], named(FILE), named(ROW))
