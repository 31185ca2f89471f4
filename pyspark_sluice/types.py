"""The Spark types of a table's columns."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import types as st

from model.errors import UnsupportedType
from model.schema.type_parts import unreadable_in_sql
from model.schema.types import ArrayType, DataType, DecimalType, LocalZonedTimestampType, MapType, RowType, TimestampType, TimeType

_SIMPLE: dict[str, st.DataType] = {
    "BOOLEAN": st.BooleanType(),
    "TINYINT": st.ByteType(),
    "SMALLINT": st.ShortType(),
    "INT": st.IntegerType(),
    "BIGINT": st.LongType(),
    "FLOAT": st.FloatType(),
    "DOUBLE": st.DoubleType(),
    "DATE": st.DateType(),
    "CHAR": st.StringType(),
    "VARCHAR": st.StringType(),
    "BINARY": st.BinaryType(),
    "VARBINARY": st.BinaryType(),
}


def to_spark(type_: DataType) -> st.DataType:
    """The type a column has in queries; raises `UnsupportedType` for types without a reader."""
    if simple := _SIMPLE.get(type_.root):
        return simple
    if unreadable := unreadable_in_sql(type_):
        raise UnsupportedType(f"Columns of type {unreadable} cannot be read in SQL.")
    match type_:
        case TimestampType():
            return st.TimestampNTZType()
        case LocalZonedTimestampType():
            return st.TimestampType()
        case TimeType():
            return st.TimeType(6)
    return composed(type_, to_spark)


def composed(type_: DataType, inner: Callable[[DataType], st.DataType]) -> st.DataType:
    """A type with parts, each made by ``inner``; raises `UnsupportedType`."""
    match type_:
        case DecimalType(precision=precision, scale=scale):
            return st.DecimalType(precision, scale)
        case ArrayType(element=element):
            return st.ArrayType(inner(element), True)
        case MapType(key=key, value=value):
            return st.MapType(inner(key), inner(value), True)
        case RowType(fields=fields):
            return st.StructType([st.StructField(f.name, inner(f.type), True) for f in fields])
    raise UnsupportedType(f"Columns of type {type_.sql()} cannot be read in SQL.")
