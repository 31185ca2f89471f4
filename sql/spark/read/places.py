"""Rows on Spark with where they lie: in which file, and which row of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake import LakeTable
from model.access import ReadRules
from sql.analysis.metadata_columns import BUCKET, FILE_PATH, PARTITION, ROW_INDEX
from sql.spark.read.deletions import read_by_arrow
from sql.spark.read.reads import dataframe, format_in_spark, named, tagged
from sql.spark.read.visible import visible
from table.scan.checks.verify import sound
from table.scan.planning.entry_scan import PlannedFile, ScanPlan

FILE, ROW = "__sluice_file", "__sluice_row"
"""Columns beside a table's that tell where a row lies: what stands for its file, and its number there."""
_PATH, _BUCKET = "__sluice_path", "__sluice_bucket"


class Numbered(NamedTuple):
    """Rows with where they lie."""

    frame: DataFrame
    files: dict[str, PlannedFile]
    """The files, by what stands beside their rows."""


def numbered(
    session: SparkSession, table: LakeTable, files: Sequence[PlannedFile], mentioned: Collection[str] | None = None, *, surely: bool = False
) -> Numbered:
    """The rows of the files, each with what tells its file and its own number in it.

    ``mentioned``: the columns that hold values; None for all. ``surely``: whether each row is looked at, whatever a file tells of itself:
    then our own reader reads all of them, for Spark's leaves out row groups by their footers, and takes a partition's value from its files.
    """
    rounds: list[dict[str, PlannedFile]] = []
    by_place: dict[str, PlannedFile] = {}
    frames = []
    readable = [False] * len(files) if surely else sound(table.files, files, table.schema_at)
    in_spark = {planned.path for planned, good in zip(files, readable, strict=True) if good and format_in_spark(planned) == "parquet"}
    for planned in files:
        # Files taken over from elsewhere may have one name in several directories.
        at = next((at for at, names in enumerate(rounds) if planned.file.file_name not in names), len(rounds))
        if at == len(rounds):
            rounds.append({})
        rounds[at][planned.file.file_name] = planned
        by_place[f"{at}/{planned.file.file_name}"] = planned
    for at, names in enumerate(rounds):
        beside = partial(_place, at)
        if parquet := [planned for planned in names.values() if planned.path in in_spark]:
            frames.append(dataframe(session, table, _plan(parquet), beside=beside))
    if by_arrow := {place: planned for place, planned in by_place.items() if planned.path not in in_spark}:
        frames.append(_read_by_arrow(session, table, by_arrow, mentioned))
    if not frames:
        none = {FILE: F.lit(None).cast("string"), ROW: F.lit(None).cast("bigint")}
        return Numbered(dataframe(session, table, _plan([])).withColumns(none), by_place)
    return Numbered(reduce(DataFrame.unionAll, frames), by_place)


def with_metadata_columns(session: SparkSession, table: LakeTable, plan: ScanPlan, rules: ReadRules, wanted: Sequence[str]) -> DataFrame:
    """The rows of the planned files that the rules leave a caller, with the metadata columns a query wants behind the table's own."""
    frame, files = numbered(session, table, plan.files)
    places = pa.table(
        {
            FILE: pa.array(list(files), pa.string()),
            _PATH: pa.array([_relative(table, planned) for planned in files.values()], pa.string()),
            _BUCKET: pa.array([planned.bucket for planned in files.values()], pa.int32()),
        }
    )
    frame = frame.join(F.broadcast(session.createDataFrame(places)), on=FILE, how="left")
    frame = visible(frame, table, rules, beside=(_PATH, _BUCKET, ROW))
    values: Mapping[str, Column] = {FILE_PATH: named(_PATH), BUCKET: named(_BUCKET), ROW_INDEX: named(ROW)}
    own = [name for name in frame.columns if name not in (_PATH, _BUCKET, ROW)]
    if PARTITION in wanted:  # made of what the caller may see
        values = {**values, PARTITION: F.struct(*[named(key).alias(key) for key in table.schema.partition_keys])}
    return frame.select(*map(named, own), *[values[name].alias(name) for name in wanted])


def _relative(table: LakeTable, planned: PlannedFile) -> str:
    """A file's path below its table; of a file that lies elsewhere its name alone."""
    below = table.files.layout.below(planned.path)
    return planned.file.file_name if below == planned.path else below


def _place(at: int, metadata: Column) -> Mapping[str, Column]:
    name = F.call_function("url_decode", F.replace(metadata.getField("file_name"), F.lit("+"), F.lit("%2B")))
    return {FILE: F.concat(F.lit(f"{at}/"), name), ROW: metadata.getField("row_index")}


def _plan(files: Sequence[PlannedFile]) -> ScanPlan:
    return ScanPlan(snapshot_id=None, files=tuple(files), total_files=len(files), count_bytes=lambda: 0)


def _read_by_arrow(
    session: SparkSession, table: LakeTable, by_place: Mapping[str, PlannedFile], mentioned: Collection[str] | None
) -> DataFrame:
    """The rows of files whose rows Spark does not number, as those of ORC or packed with brotli; only mentioned columns hold values."""
    fields = [field for field in table.schema.fields if mentioned is None or field.name in mentioned] or list(table.schema.fields[:1])
    read = {field.name for field in fields}
    frame = read_by_arrow(session, table, list(by_place.values()), columns=read, beside=(FILE, ROW), names=list(by_place))
    return frame.select(*[tagged(named(f.name), f) for f in table.schema.fields], named(FILE), named(ROW))
