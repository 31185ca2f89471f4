"""Model types and Spark types, both ways; and the forms columns have in data files."""

from __future__ import annotations

from pyspark.sql import types as st

from model.errors import UnsupportedType
from model.schema.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntervalDayTimeType,
    IntervalYearMonthType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    NullType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from pyspark_sluice.types import composed, to_spark

__all__ = ["composed", "from_spark", "in_file", "in_orc", "to_spark"]


def in_file(type_: DataType) -> st.DataType:
    """The type a column is read with: a TIME lies as milliseconds."""
    return st.IntegerType() if isinstance(type_, TimeType) else composed(type_, in_file) if _nested(type_) else to_spark(type_)


def in_orc(type_: DataType) -> st.DataType:
    """The type a column of an ORC file is read with: every TIMESTAMP as an instant."""
    if isinstance(type_, TimestampType):
        return st.TimestampType()
    return composed(type_, in_orc) if _nested(type_) else in_file(type_)


def _nested(type_: DataType) -> bool:
    return isinstance(type_, ArrayType | MapType | RowType)


_BACK: dict[type[st.DataType], type[DataType]] = {
    st.BooleanType: BooleanType,
    st.ByteType: TinyIntType,
    st.ShortType: SmallIntType,
    st.IntegerType: IntType,
    st.LongType: BigIntType,
    st.FloatType: FloatType,
    st.DoubleType: DoubleType,
    st.DateType: DateType,
    st.StringType: VarCharType,
    st.VarcharType: VarCharType,
    st.CharType: VarCharType,
    st.BinaryType: VarBinaryType,
    st.TimestampType: LocalZonedTimestampType,
    st.TimestampNTZType: TimestampType,
    st.NullType: NullType,
    st.DayTimeIntervalType: IntervalDayTimeType,
    st.YearMonthIntervalType: IntervalYearMonthType,
}


def from_spark(type_: st.DataType, *, nullable: bool = True) -> DataType:
    """The type of a result column; raises `UnsupportedType` naming what has none."""
    if made := _BACK.get(type(type_)):
        return made(nullable=nullable)
    match type_:
        case st.TimeType():
            return TimeType(precision=min(type_.precision, 3), nullable=nullable)  # results have milliseconds
        case st.DecimalType():
            return DecimalType(precision=type_.precision, scale=type_.scale, nullable=nullable)
        case st.ArrayType():
            return ArrayType(element=from_spark(type_.elementType, nullable=type_.containsNull), nullable=nullable)
        case st.MapType():
            value = from_spark(type_.valueType, nullable=type_.valueContainsNull)
            return MapType(key=from_spark(type_.keyType, nullable=False), value=value, nullable=nullable)
        case st.StructType():
            fields = tuple(Field(id=-1, name=f.name, type=from_spark(f.dataType, nullable=f.nullable)) for f in type_.fields)
            return RowType(fields=fields, nullable=nullable)
    raise UnsupportedType(f"A result of type {type_.simpleString().upper()} cannot be sent; cast it to another type.")


def within(type_: st.DataType) -> list[st.DataType]:
    """The type itself and each inside of it, but for the keys of a MAP."""
    match type_:
        case st.StructType():
            inside = [field.dataType for field in type_.fields]
        case st.ArrayType():
            inside = [type_.elementType]
        case st.MapType():
            inside = [type_.valueType]
        case _:
            inside = []
    return [type_, *(inner for one in inside for inner in within(one))]
