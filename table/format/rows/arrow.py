"""Paimon types as Arrow types and back: one function a direction, every type named."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from model.errors import UnsupportedType
from model.schema.type_parts import unreadable_in_sql
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
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from table.format.field_ids import element_id, key_id, value_id

_SIMPLE: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "TIME": pa.time32("ms"),
}


def arrow_type(type_: DataType) -> pa.DataType:
    """The canonical Arrow type; raises `UnsupportedType` for types without a reader."""
    if simple := _SIMPLE.get(type_.root):
        return simple
    if unreadable := unreadable_in_sql(type_):
        raise UnsupportedType(f"Columns of type {unreadable} are kept as metadata only; their data cannot be read or written here yet.")
    match type_:
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case TimestampType(precision=precision):
            return pa.timestamp("ms" if precision <= 3 else "us")
        case LocalZonedTimestampType(precision=precision):
            return pa.timestamp("ms" if precision <= 3 else "us", tz="UTC")
        case ArrayType(element=element):
            return pa.list_(pa.field("element", arrow_type(element), nullable=element.nullable))
        case MapType(key=key, value=value):
            return pa.map_(arrow_type(key), pa.field("value", arrow_type(value), nullable=value.nullable))
        case RowType(fields=fields):
            return pa.struct([arrow_field(field) for field in fields])
    raise UnsupportedType(f"The type {type_} has no Arrow form.")


def arrow_field(field: Field, *, with_id: bool = False) -> pa.Field:
    """A column as an Arrow field; ``with_id`` carries Paimon's ids into Parquet, those of all its parts too.

    Raises `UnsupportedType` for a column of a type without a reader.
    """
    if unreadable := unreadable_in_sql(field.type):
        raise UnsupportedType(f"Column {field.name} holds {unreadable}; such data is kept, and cannot be read or written here yet.")
    if not with_id:
        return pa.field(field.name, arrow_type(field.type), nullable=field.type.nullable)
    return _identified(field.name, field.type, field.id, field.id, 0)


def _identified(name: str, type_: DataType, own: int, of: int, depth: int) -> pa.Field:
    """A field with its own id, inside the one of id ``of``."""
    at = depth + 1
    match type_:
        case ArrayType(element=element):
            made = pa.list_(_identified("element", element, element_id(of, at), of, at))
        case MapType(key=key, value=value):
            keys = _identified("key", key.with_nullable(False), key_id(of, at), of, at)
            made = pa.map_(keys, _identified("value", value, value_id(of, at), of, at))
        case RowType(fields=fields):
            made = pa.struct([arrow_field(field, with_id=True) for field in fields])
        case _:
            made = arrow_type(type_)
    return pa.field(name, made, nullable=type_.nullable, metadata={"PARQUET:field_id": str(own)})


def arrow_schema(fields: Sequence[Field], *, with_ids: bool = False) -> pa.Schema:
    """Some columns as an Arrow schema."""
    return pa.schema([arrow_field(field, with_id=with_ids) for field in fields])


def data_type(type_: pa.DataType, *, nullable: bool = True) -> DataType:
    """The Paimon type an Arrow column fits into; raises `UnsupportedType` naming the Arrow type."""
    types = pa.types
    if types.is_dictionary(type_):
        return data_type(type_.value_type, nullable=nullable)
    if made := _simple_back(type_, nullable):
        return made
    if types.is_decimal(type_):
        return DecimalType(precision=type_.precision, scale=type_.scale, nullable=nullable)
    if types.is_timestamp(type_):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[type_.unit]
        if type_.tz:
            return LocalZonedTimestampType(precision=precision, nullable=nullable)
        return TimestampType(precision=precision, nullable=nullable)
    if types.is_list(type_) or types.is_large_list(type_):
        return ArrayType(element=data_type(type_.value_type, nullable=type_.value_field.nullable), nullable=nullable)
    if types.is_map(type_):
        value = data_type(type_.item_type, nullable=type_.item_field.nullable)
        return MapType(key=data_type(type_.key_type, nullable=False), value=value, nullable=nullable)
    if types.is_struct(type_):
        inner = tuple(Field(id=-1, name=f.name, type=data_type(f.type, nullable=f.nullable)) for f in type_)
        return RowType(fields=inner, nullable=nullable)
    raise UnsupportedType(f"The Arrow type {type_} has no column type here.")


_BACK: tuple[tuple[str, type[DataType]], ...] = (
    ("is_boolean", BooleanType),
    ("is_int8", TinyIntType),
    ("is_int16", SmallIntType),
    ("is_int32", IntType),
    ("is_int64", BigIntType),
    ("is_uint8", SmallIntType),
    ("is_uint16", IntType),
    ("is_uint32", BigIntType),
    ("is_float32", FloatType),
    ("is_float64", DoubleType),
    ("is_date", DateType),
    ("is_string", VarCharType),
    ("is_large_string", VarCharType),
    ("is_binary", VarBinaryType),
    ("is_large_binary", VarBinaryType),
    ("is_fixed_size_binary", VarBinaryType),
)


def _simple_back(type_: pa.DataType, nullable: bool) -> DataType | None:
    if pa.types.is_time(type_):
        return TimeType(precision=3, nullable=nullable)
    for test, made in _BACK:
        if getattr(pa.types, test)(type_):
            return made(nullable=nullable)
    return None
