"""Planned files as a DataFrame under the table's present schema (`paimon-append.md` §2.4)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.pandas.functions import arrow_udf

from lake import LakeTable
from model.errors import UnsupportedType
from model.schema.casting import is_cast
from model.schema.type_parts import walk
from model.schema.types import ArrayType, AtomicType, DataType, Field, MapType, RowType, TimeType
from model.text.sql_text import quote
from sql.spark.read.declared import metadata
from sql.spark.read.deletions import BY_ARROW, Marked, read_by_arrow, without_deleted
from sql.spark.read.types import in_file, in_orc, to_spark
from sql.spark.session.zone import plain
from table.format.formats import format_of
from table.format.hive import NULL_NAMES
from table.format.layout import escape
from table.scan.checks.verify import looks
from table.scan.evolution import check_parts, evolved
from table.scan.planning.entry_scan import PlannedFile, ScanPlan
from table.scan.read import check_whole

_UNSEEN = "unseen"
"""Files whose names begin so that Spark's readers pass them over without a word; they are read here."""

_READING = {
    # A page whose bytes changed is an error and never a wrong row; the vectorized reader heeds it, too.
    "parquet.page.verify-checksum.enabled": "true",
    # Neither Arrow nor Paimon notes the calendar of an ORC file's days; Spark would take them for Julian ones before 1582.
    "orc.proleptic.gregorian.default": "true",
    # These lie outside of pages and their checksums, and nothing tells that they changed: a page of rows would be missing.
    "parquet.filter.columnindex.enabled": "false",
    "parquet.filter.dictionary.enabled": "false",
    "parquet.filter.bloom.enabled": "false",
}

_WITHOUT_BOUNDS = {"parquet.filter.stats.enabled": "false"}
"""For files whose footers leave NaN out of their bounds: Spark would leave out the row groups of a NaN that a condition keeps."""
Beside = Callable[[Column], Mapping[str, Column]]
"""Columns behind a table's own, by name, made of what Spark tells of each row's file (its ``_metadata``)."""


def nothing(_: Column) -> Mapping[str, Column]:
    """The table's columns alone."""
    return {}


class _Alike(NamedTuple):
    """What files that are read together have in common."""

    schema_id: int
    format_: str
    elsewhere: bool
    marked: int
    bounded: bool


def dataframe(
    session: SparkSession, table: LakeTable, plan: ScanPlan, *, fields: Sequence[Field] | None = None, beside: Beside = nothing
) -> DataFrame:
    """The rows of the planned files; files of one format and schema version are read together.

    ``fields``: the columns it has, None for all of the table. ``beside``: what stands behind these; of Parquet files alone.
    """
    fields = table.schema.fields if fields is None else fields
    groups: dict[_Alike, list[PlannedFile]] = defaultdict(list)
    marked = Marked(plan.files)
    for planned, look in zip(plan.files, looks(table.files, plan.files, table.schema_at), strict=True):
        check_whole(planned.file, table.schema, table.schema_at(planned.file.schema_id))
        # Files taken over where they lie may leave their partition to the names of their directories.
        elsewhere = bool(table.schema.partition_keys) and planned.file.external_path is not None
        format_ = format_in_spark(planned)
        group = marked.group(planned, format_) if look.in_spark else BY_ARROW
        groups[_Alike(planned.file.schema_id, format_, elsewhere, group, look.bounded)].append(planned)
    frames = [_group(session, table, fields, alike, files, beside) for alike, files in groups.items()]
    if not frames:
        return session.createDataFrame([], st.StructType([_field(f, to_spark(f.type), f.type) for f in fields]))
    return reduce(DataFrame.unionAll, frames)


def _group(
    session: SparkSession, table: LakeTable, fields: Sequence[Field], alike: _Alike, files: list[PlannedFile], beside: Beside
) -> DataFrame:
    schema_id, format_, elsewhere, marked, bounded = alike
    if marked == BY_ARROW or format_ in ("avro", _UNSEEN):
        frame = read_by_arrow(session, table, files, schema=replace(table.schema, fields=tuple(fields)))
        return frame.select(*[tagged(named(f.name), f) for f in fields])
    if format_ not in ("parquet", "orc"):
        raise UnsupportedType(f"Data files of format {format_} are not read here.")
    written = table.schema_at(schema_id)
    sources = {f.id: f for f in written.fields}
    wanted = [(sources[f.id], f.type) for f in fields if f.id in sources]
    orc = format_ == "orc"
    reading = st.StructType([_field(f, (in_orc if orc else in_file)(f.type), now) for f, now in wanted])
    table.files.reach.check_many([planned.path for planned in files])
    frame = (
        session.read.schema(reading)
        .format(format_)
        .options(**_READING, **({} if bounded else _WITHOUT_BOUNDS))
        .load([literal(planned.path) for planned in files])
    )
    with plain(session):
        if elsewhere:
            frame = _with_partitions(frame, table)
        columns = beside(frame.metadataColumn("_metadata"))  # a column of the table may have that name
        more = [column.alias(name) for name, column in columns.items()]
        if marked:
            frame = without_deleted(session, table, frame.select("*", *more), files)
            more = [named(name) for name in columns]
        # Spark reads ORC's TIMESTAMP as an instant of a JVM that runs in UTC; here it becomes the clock time it is.
        frame = frame.select(*[named(f.name).cast(in_file(f.type)).alias(f.name) for f, _ in wanted]) if orc else frame
        return frame.select(*[tagged(_column(f, sources.get(f.id)), f) for f in fields], *more)


def format_in_spark(planned: PlannedFile) -> str:
    """The file's format, where Spark's own readers take it."""
    return _UNSEEN if planned.path.rpartition("/")[2].startswith(("_", ".")) else format_of(planned.file.file_name)


def literal(path: str) -> str:
    """The path as Spark takes it for itself: a `*` or `{…}` in it was checked as part of a name, and stands for no other file."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def _field(field: Field, type_: st.DataType, declared: DataType) -> st.StructField:
    return st.StructField(field.name, type_, True, metadata(declared))


def tagged(column: Column, field: Field) -> Column:
    """The column under its name and with its declared type."""
    declared = metadata(field.type)
    return column.alias(field.name, metadata=declared) if declared else column.alias(field.name)


def _with_partitions(frame: DataFrame, table: LakeTable) -> DataFrame:
    """Fill the partition columns files do not hold from their directories' names, by which they were taken over."""
    path = F.call_function("url_decode", F.replace(frame.metadataColumn("_metadata").getField("file_path"), F.lit("+"), F.lit("%2B")))
    for field in table.schema.partition_fields:
        text = F.regexp_extract(path, f".*/(?:{re.escape(field.name)}|{re.escape(escape(field.name))})=([^/]*)/", 1)
        text = F.coalesce(F.call_function("try_url_decode", F.replace(text, F.lit("+"), F.lit("%2B"))), text)
        value = F.when(text.isin("", *NULL_NAMES), F.lit(None)).otherwise(text).cast(to_spark(field.type))
        frame = frame.withColumn(field.name, F.coalesce(named(field.name), value))
    return frame


def named(name: str) -> Column:
    """A column by its exact name, whatever characters it has."""
    return F.col(quote(name))


def once(column: Column, made: Callable[[Column], Column]) -> Column:
    """What ``made`` makes of the column, which is worked out once, however often it is used: Spark repeats an expression for each use."""
    return F.element_at(F.transform(F.array(column), made), 1)


def _column(field: Field, source: Field | None) -> Column:
    if source is None:
        return F.lit(None).cast(to_spark(field.type))
    return _evolved(named(source.name), source.type, field.type, field.name)


def _evolved(column: Column, source: DataType, target: DataType, name: str) -> Column:
    """Column ``name`` as a file holds it, under the type the table has now."""
    if is_cast(source, target):
        return _converted(column, source, target, name)
    check_parts(source, target, name)
    if isinstance(target, TimeType):
        return F.call_function("time_from_millis", column)
    if isinstance(source, RowType) and isinstance(target, RowType) and _differs(source, target):
        by_id = {f.id: f for f in source.fields}
        parts = []
        for f in target.fields:
            old = by_id.get(f.id)
            if old is None:
                part = F.lit(None).cast(to_spark(f.type))
            else:
                part = _evolved(column.getField(old.name), old.type, f.type, f"{name}.{f.name}")
            parts.append(part.alias(f.name))
        return F.when(column.isNull(), F.lit(None)).otherwise(F.struct(*parts))
    if isinstance(source, ArrayType) and isinstance(target, ArrayType) and _differs(source.element, target.element):
        inner_source, inner_target = source.element, target.element
        return F.transform(column, lambda item: _evolved(item, inner_source, inner_target, name))
    if isinstance(source, MapType) and isinstance(target, MapType) and _differs(source, target):
        return _evolved_map(column, source, target, name)
    if source.with_nullable(True) == target.with_nullable(True):
        return column
    return column.cast(to_spark(target))


def _evolved_map(column: Column, source: MapType, target: MapType, name: str) -> Column:
    """A MAP with both its keys and its values under their types of now."""

    def entry(old: Column) -> Column:
        key = _evolved(old.getField("key"), source.key, target.key, name)
        return F.struct(key.alias("key"), _evolved(old.getField("value"), source.value, target.value, name).alias("value"))

    if _differs(source.key, target.key) and (not isinstance(target.key, AtomicType) or isinstance(target.key, TimeType)):
        return F.map_from_entries(F.transform(F.map_entries(column), entry))
    if _differs(source.value, target.value):
        column = F.transform_values(column, lambda _, value: _evolved(value, source.value, target.value, name))
    # A cast of the keys leaves each where it is, also two that are alike in a file of another writer.
    return column.cast(to_spark(target)) if _differs(source.key, target.key) else column


def _converted(column: Column, source: DataType, target: DataType, name: str) -> Column:
    """Values of an old type cast by the code that reads files without Spark, so that both answer the same."""

    def cast(array: pa.Array) -> pa.Array:
        made = evolved(array, source, target, name)
        return made.cast(pa.int32()) if isinstance(target, TimeType) else made

    function: Any = arrow_udf(cast, in_file(target))  # type: ignore[call-overload]
    made: Column = function(column)
    return F.call_function("time_from_millis", made) if isinstance(target, TimeType) else made


def _differs(source: DataType, target: DataType) -> bool:
    return source != target or any(isinstance(part, TimeType) for part in walk(target))
