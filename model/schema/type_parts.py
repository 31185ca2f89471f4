"""The types inside a type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.schema.geospatial import GeometryType
from model.schema.types import (
    ArrayType,
    BlobType,
    DataType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    VariantType,
    VectorType,
)


def walk(type_: DataType) -> Iterator[DataType]:
    """Yield the type and every type inside it."""
    yield type_
    match type_:
        case ArrayType(element=inner) | MultisetType(element=inner) | VectorType(element=inner):
            yield from walk(inner)
        case MapType(key=key, value=value):
            yield from walk(key)
            yield from walk(value)
        case RowType(fields=fields):
            for part in fields:
                yield from walk(part.type)


def nullable_throughout(type_: DataType) -> DataType:
    """The type where every part may be NULL; keys of maps are as they were."""
    match type_:
        case ArrayType(element=element):
            type_ = replace(type_, element=nullable_throughout(element))
        case MapType(value=value):
            type_ = replace(type_, value=nullable_throughout(value))
        case RowType(fields=fields):
            type_ = replace(type_, fields=tuple(replace(field, type=nullable_throughout(field.type)) for field in fields))
    return type_.with_nullable(True)


def unreadable_in_sql(type_: DataType) -> str | None:
    """Name the part of a type SQL cannot hold faithfully yet, or None when all of it can (`architecture.md`)."""
    for part in walk(type_):
        if isinstance(part, MultisetType | VariantType | BlobType | VectorType | GeometryType):
            return part.sql()
        if isinstance(part, TimestampType | LocalZonedTimestampType) and part.precision > 6:
            return part.sql()
    return None
