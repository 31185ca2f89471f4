"""Maps of records and files, which may have a key twice there: the last one counts, as in Flink and in bodies of rows."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

from sql.spark.read.reads import once
from sql.spark.read.types import within


def has_map(type_: st.DataType) -> bool:
    """Whether there is a MAP in it."""
    return any(isinstance(one, st.MapType) for one in within(type_))


def last_of_each_key(column: Column, type_: st.DataType) -> Column:
    """A value as Spark read it from JSON or Parquet, each key of whose maps is there once, however deep they stand."""
    match type_:
        case st.StructType() if has_map(type_):
            return once(column, lambda row: F.when(row.isNotNull(), F.struct(*_fields(row, type_))))
        case st.ArrayType() if has_map(type_):
            return F.transform(column, lambda item: last_of_each_key(item, type_.elementType))
        case st.MapType():
            distinct = once(column, _distinct)
            if not has_map(type_.valueType):
                return distinct
            return F.transform_values(distinct, lambda _, value: last_of_each_key(value, type_.valueType))
    return column


def _fields(row: Column, type_: st.StructType) -> list[Column]:
    return [last_of_each_key(row.getField(field.name), field.dataType).alias(field.name) for field in type_.fields]


def _distinct(made: Column) -> Column:
    """The map itself where its keys differ; else what is left of it, which takes the time of sorting its keys."""
    same = F.size(F.array_distinct(F.map_keys(made))) == F.size(made)
    places = F.array_sort(F.transform(F.map_keys(made), lambda key, at: F.struct(key.alias("key"), at.alias("at"))))
    return F.when(same, made).otherwise(once(places, lambda ordered: _kept(F.map_entries(made), ordered)))


def _kept(entries: Column, ordered: Column) -> Column:
    """The entries behind which none has their key; ``ordered`` are the keys with their places, sorted."""

    def is_last(place: Column, at: Column) -> Column:
        following = F.get(ordered, at + 1).getField("key")
        return following.isNull() | (following != place.getField("key"))

    last = F.array_sort(F.transform(F.filter(ordered, is_last), lambda place: place.getField("at")))
    return once(entries, lambda all_: F.map_from_entries(F.transform(last, lambda at: F.get(all_, at))))
