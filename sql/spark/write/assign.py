"""A query's rows as a table's columns: by position, by ANSI store assignment, checked on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st
from sqlglot import exp

from model.errors import AnalysisError, InvalidData
from model.schema.schema import Schema
from model.schema.type_parts import walk
from model.schema.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DateType,
    Field,
    LocalZonedTimestampType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from sql.spark.read.reads import named
from sql.spark.read.types import composed, from_spark, in_file, to_spark
from sql.spark.session.texts import column_of
from table.format.rows.cast import default_of
from table.format.rows.domain import END_DAY, FIRST_DAY

_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
_TEXTS = frozenset({"CHAR", "VARCHAR"})
_BYTES = frozenset({"BINARY", "VARBINARY"})
_LONGEST = 2_147_483_647
_DAY = 86_400
_SPARKS_DIGITS = 6
"""Digits of a second that Spark's times have."""


def assignable(source: DataType, target: DataType) -> bool:
    """Whether a value may be stored without an explicit cast, by ANSI store assignment; its range is checked per row."""
    if source.root in ("NULL", target.root):
        return _parts_assignable(source, target)
    if source.root in _NUMBERS and target.root in _NUMBERS:
        return True
    if target.root in _TEXTS:
        return not isinstance(source, ArrayType | MapType | RowType) and source.root not in _BYTES
    if source.root in _BYTES and target.root in _BYTES:
        return True
    return (source.root, target.root) in (("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE"))


def _parts_assignable(source: DataType, target: DataType) -> bool:
    match source, target:
        case ArrayType(), ArrayType():
            return assignable(source.element, target.element)
        case MapType(), MapType():
            return assignable(source.key, target.key) and assignable(source.value, target.value)
        case RowType(), RowType():
            pairs = zip(source.fields, target.fields, strict=False)
            return len(source.fields) == len(target.fields) and all(assignable(a.type, b.type) for a, b in pairs)
    return True


def assigned(frame: DataFrame, schema: Schema, columns: Sequence[str] | None, fixed: Mapping[str, Column], table: str) -> DataFrame:
    """The frame as the table's columns: its columns go to ``columns`` (all but the fixed ones) in order.

    Others, and NULLs of columns that may be NULL, have their column's default, as in Paimon's writers.

    Raises `AnalysisError` for a wrong number of columns or a type that needs a cast.
    """
    targets = list(columns) if columns is not None else [f.name for f in schema.fields if f.name not in fixed]
    fields = frame.schema.fields
    if len(fields) != len(targets):
        raise AnalysisError(
            f"{len(fields)} value{'s' if len(fields) != 1 else ''} for {len(targets)} column{'s' if len(targets) != 1 else ''}: "
            f"{table} takes {', '.join(targets)}."
        )
    positional = frame.toDF(*[f"c{i}" for i in range(len(fields))])
    sources = {name: (F.col(f"c{i}"), fields[i]) for i, name in enumerate(targets)}
    values = {field.name: stored(field, sources.get(field.name), fixed.get(field.name), table) for field in schema.fields}
    for field in schema.partition_fields:
        values[field.name] = in_years(values[field.name], field)
    return positional.select(*[value.alias(name) for name, value in values.items()])


def stored(field: Field, source: tuple[Column, st.StructField] | None, fixed: Column | None, table: str) -> Column:
    """A value as the column's: of a query's column, or a fixed one; without either the column's default.

    Raises `AnalysisError` for a type that needs a cast.
    """
    if source is not None:
        column, spark_field = source
        kind = from_spark(spark_field.dataType)
        if not assignable(kind, field.type):
            raise AnalysisError(
                f"Column {field.name} of {table} is {field.type.sql()} and the query gives {kind.sql()}; "
                f"write CAST(… AS {field.type.sql()})."
            )
    else:
        column = fixed if fixed is not None else F.lit(None)
    value = column.cast(to_spark(field.type))
    if source is not None and _keys_are_cast(kind, field.type):
        value = _each(value, field.type, lambda _: True, lambda one, _: one)
    if source is None and fixed is None:
        value = _default(field)
    elif field.default_value is not None and field.type.nullable:
        value = F.coalesce(value, _default_of_nulls(field))
    return checked(value, field)


def _keys_are_cast(source: DataType, target: DataType) -> bool:
    """Whether keys of a map get another type, of which two may be one: Spark's cast would leave both where they are."""
    match source, target:
        case ArrayType(), ArrayType():
            return _keys_are_cast(source.element, target.element)
        case MapType(), MapType():
            if to_spark(source.key) != to_spark(target.key):
                return True
            return _keys_are_cast(source.value, target.value)
        case RowType(), RowType():
            return any(_keys_are_cast(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True))
    return False


def in_years(column: Column, field: Field) -> Column:
    """The values of a partition column, failing at a time of a year that has no text here: nobody could name its partition."""
    first, end = (F.date_from_unix_date(F.lit(day)) for day in (FIRST_DAY, END_DAY))
    match field.type:
        case DateType():
            pass
        case TimestampType():
            first, end = first.cast("timestamp_ntz"), end.cast("timestamp_ntz")
        case LocalZonedTimestampType():
            first, end = (F.timestamp_seconds(F.lit(day * _DAY)) for day in (FIRST_DAY, END_DAY))
        case _:
            return column
    said = (
        F.lit(f"Column {field.name}: the value "),
        column.cast("string"),
        F.lit(" is before the year -32767 or after 32767: no partition can be."),
    )
    return F.when((column < first) | (column >= end), F.raise_error(F.concat(*said))).otherwise(column)


def _default(field: Field) -> Column:
    default = default_of(field)
    return _literal(None if default is None else default.as_py(), field.type)


def _default_of_nulls(field: Field) -> Column:
    """The default for the NULLs of a query; one that is no value fails where there is a NULL, and nowhere else."""
    try:
        return _default(field)
    except InvalidData as problem:  # another client's: an earlier version, or a schema file
        return F.raise_error(F.lit(problem.message)).cast(to_spark(field.type))


def _literal(value: Any, type_: DataType) -> Column:
    """A value that Arrow gave as a column of its type."""
    if value is None:
        return F.lit(None).cast(to_spark(type_))
    match type_:
        case ArrayType(element=element):
            column = F.array(*[_literal(one, element) for one in value])
        case MapType(key=of_keys, value=of_values):
            column = F.create_map(*[part for key, one in value for part in (_literal(key, of_keys), _literal(one, of_values))])
        case RowType(fields=fields):
            column = F.struct(*[_literal(value[inner.name], inner.type).alias(inner.name) for inner in fields])
        case LocalZonedTimestampType():  # names its zone; Spark would take a text without one for the session's
            column = F.lit(value.isoformat())
        case _:
            column = F.lit(value if isinstance(value, bytes) else str(value))
    return column.cast(to_spark(type_))


def checked(column: Column, field: Field) -> Column:
    """The column, failing at a NULL that may not be or a text that is too long, however deep it stands."""
    return _checked(column, field.type, field.name)


def _checked(column: Column, type_: DataType, name: str) -> Column:
    limit = getattr(type_, "length", _LONGEST)
    if isinstance(type_, CharType | VarCharType | BinaryType | VarBinaryType) and limit < _LONGEST:
        size = F.octet_length(column) if isinstance(type_, BinaryType | VarBinaryType) else F.char_length(column)
        message = F.concat(F.lit(f"Column {name}: a value of length "), size.cast("string"), F.lit(f" does not fit {type_.sql()}."))
        column = F.when(size > limit, F.raise_error(message)).otherwise(column)
    elif _has_limits(type_.with_nullable(True)):
        column = _checked_inside(column, type_, name)
    if not type_.nullable:
        column = F.coalesce(column, F.raise_error(F.lit(f"Column {name}: NULL, but the column is NOT NULL.")).cast(to_spark(type_)))
    return column


def _checked_inside(column: Column, type_: DataType, name: str) -> Column:
    match type_:
        case ArrayType(element=element):
            return F.transform(column, lambda item: _checked(item, element, f"{name}.element"))
        case MapType(key=key, value=value) if _has_limits(key.with_nullable(True)):

            def entry(old: Column) -> Column:
                of_key = _checked(old.getField("key"), key.with_nullable(True), f"{name}.key")
                return F.struct(of_key.alias("key"), _checked(old.getField("value"), value, f"{name}.value").alias("value"))

            return F.map_from_entries(F.transform(F.map_entries(column), entry))
        case MapType(value=value):
            return F.transform_values(column, lambda _, item: _checked(item, value, f"{name}.value"))
        case RowType(fields=fields):
            parts = [_checked(column.getField(f.name), f.type, f"{name}.{f.name}").alias(f.name) for f in fields]
            return F.when(column.isNull(), F.lit(None)).otherwise(F.struct(*parts))
    return column


def _has_limits(type_: DataType) -> bool:
    """Whether a value of the type may not be NULL or too long somewhere; keys of maps are never NULL."""
    match type_:
        case ArrayType(element=element):
            inside = _has_limits(element)
        case MapType(key=key, value=value):
            inside = _has_limits(key.with_nullable(True)) or _has_limits(value)
        case RowType(fields=fields):
            inside = any(_has_limits(field.type) for field in fields)
        case _:
            inside = bool(getattr(type_, "length", _LONGEST) < _LONGEST)
    return inside or not type_.nullable


def literals(fixed: Mapping[str, exp.Expr]) -> dict[str, Column]:
    """PARTITION values as columns; raises `AnalysisError` for anything but a literal."""
    columns = {}
    for name, node in fixed.items():
        literal = node.this if isinstance(node, exp.Cast | exp.Neg) else node
        if not isinstance(literal, exp.Literal | exp.Null | exp.Boolean | exp.HexString):
            raise AnalysisError(f"PARTITION ({name} = …) takes a literal.", fragment=node.sql("spark"))
        columns[name] = column_of(node)
    return columns


def kept(schema: Schema) -> list[Column]:
    """The columns with what their types hold of each value: a time's digits beyond the precision are cut off; analyze under zone UTC."""
    return [_kept(named(f.name), f.type).alias(f.name) for f in schema.fields]


def _kept(column: Column, type_: DataType) -> Column:
    return _each(column, type_, _is_cut, _cut)


def physical(frame: DataFrame, schema: Schema) -> list[Column]:
    """The columns as they lie in Parquet for every reader (`architecture.md`, Timestamps); analyze under zone UTC."""
    return [_physical(named(f.name), f.type).alias(f.name) for f in schema.fields]


def kept_physical(field: Field) -> Column:
    """A column's values as `kept` has them, in the form of `physical`."""
    return _physical(_kept(named(field.name), field.type), field.type).alias(field.name)


def _physical(column: Column, type_: DataType) -> Column:
    """Milliseconds are written from a TIMESTAMP, microseconds from a TIMESTAMP_NTZ, and a TIME from an INT.

    A cast leaves the keys of a map where they are, also two that are alike in a file of another writer.
    """
    column = _each(column, type_, _is_time, lambda time, _: F.time_to_millis(time).cast("int"))
    return column.cast(_form(type_)) if any(map(_is_timestamp, walk(type_))) else column


def _form(type_: DataType) -> st.DataType:
    match type_:
        case TimestampType(precision=precision) | LocalZonedTimestampType(precision=precision):
            return st.TimestampType() if precision <= 3 else st.TimestampNTZType()
        case ArrayType() | MapType() | RowType():
            return composed(type_, _form)
    return in_file(type_)


def _is_time(type_: DataType) -> bool:
    return type_.root == "TIME"


def _is_timestamp(type_: DataType) -> bool:
    return isinstance(type_, TimestampType | LocalZonedTimestampType)


def _is_cut(type_: DataType) -> bool:
    return isinstance(type_, TimeType) or (isinstance(type_, TimestampType | LocalZonedTimestampType) and type_.precision != _SPARKS_DIGITS)


def _cut(column: Column, type_: DataType) -> Column:
    """A time without the digits beyond its type's; a TIME has milliseconds at most."""
    if isinstance(type_, TimeType):
        millis = F.time_to_millis(column)
        return F.time_from_millis(millis - F.pmod(millis, F.lit(10 ** (3 - type_.digits)).cast("bigint")))
    assert isinstance(type_, TimestampType | LocalZonedTimestampType)
    micros = F.unix_micros(column.cast("timestamp_ltz"))
    unit = F.lit(10 ** (_SPARKS_DIGITS - type_.precision)).cast("bigint")
    return F.timestamp_micros(micros - F.pmod(micros, unit)).cast(to_spark(type_))


def _each(column: Column, type_: DataType, wanted: Callable[[DataType], bool], made: Callable[[Column, DataType], Column]) -> Column:
    """The value with each simple one of a wanted type, however deep, as ``made`` makes it; two keys that become one are an error."""
    if not any(map(wanted, walk(type_))):
        return column
    match type_:
        case ArrayType(element=element):
            return F.transform(column, lambda item: _each(item, element, wanted, made))
        case MapType(key=key, value=value) if any(map(wanted, walk(key))):

            def entry(old: Column) -> Column:
                of_key, of_value = old.getField("key"), old.getField("value")
                return F.struct(_each(of_key, key, wanted, made).alias("key"), _each(of_value, value, wanted, made).alias("value"))

            return F.map_from_entries(F.transform(F.map_entries(column), entry))
        case MapType(value=value):
            return F.transform_values(column, lambda _, item: _each(item, value, wanted, made))
        case RowType(fields=fields):
            parts = [_each(column.getField(f.name), f.type, wanted, made).alias(f.name) for f in fields]
            return F.when(column.isNull(), F.lit(None)).otherwise(F.struct(*parts))
    return made(column, type_)
