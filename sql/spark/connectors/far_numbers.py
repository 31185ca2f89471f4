"""DECIMAL in texts: Spark's readers write a number with a far exponent out, digit by digit, which nothing interrupts; CAST does not."""

from __future__ import annotations

from typing import TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

from sql.analysis.limits.long_rows import FAR
from sql.spark.connectors.map_keys import last_of_each_key
from sql.spark.read.reads import once
from sql.spark.read.types import within

_FAR_NUMBER = r"^\s*+[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)[eE][+-]?[0-9]{6,}+\s*+$"
"""It never gives back: digits that nothing fits behind are gone through once."""
_TEXT = r'"(?:[^"\\]++|\\.)*+"'
_SHORT = r"-?(?:[0-9]++(?![0-9.eE])|[0-9.]{1,16}+(?![0-9.eE]))"
_LONG = r"-?[0-9][0-9.eE+-]*+"
"""A number in JSON that the detour over a double would change."""
_UP_TO_LONG = rf"(?s)\G((?:{_TEXT}|[^\"0-9-]|{_SHORT})*+)({_LONG})"
"""From the end of the last one, so that a text is gone through once."""


def has_decimal(type_: st.DataType) -> bool:
    """Whether a value of the type may hold a DECIMAL anywhere."""
    return any(isinstance(one, st.DecimalType) for one in within(type_))


Schema = TypeVar("Schema", bound=st.StructType | st.ArrayType)


def as_texts(schema: Schema, *kinds: type[st.DataType]) -> Schema:
    """The schema with STRING in place of DECIMAL, and of what else is named."""
    made = _as_text(schema, (st.DecimalType, *kinds))
    assert isinstance(made, type(schema))
    return made


def _as_text(type_: st.DataType, kinds: tuple[type[st.DataType], ...]) -> st.DataType:
    match type_:
        case st.StructType():
            return st.StructType([st.StructField(f.name, _as_text(f.dataType, kinds), f.nullable) for f in type_.fields])
        case st.ArrayType():
            return st.ArrayType(_as_text(type_.elementType, kinds), type_.containsNull)
        case st.MapType():
            return st.MapType(type_.keyType, _as_text(type_.valueType, kinds), type_.valueContainsNull)
    return st.StringType() if isinstance(type_, kinds) else type_


def from_texts(column: Column, type_: st.DataType, *kinds: type[st.DataType], ignoring: bool) -> Column:
    """A value that was read as `as_texts` says, as its own type.

    NULL for a far number beyond it, and an error, as readers give it, for another number beyond it and for no number.
    ``ignoring``: NULL for these, too.
    """
    texts: tuple[type[st.DataType], ...] = (st.DecimalType, *kinds)
    if isinstance(type_, texts):
        text = F.replace(column, F.lit(","), F.lit("")) if isinstance(type_, st.DecimalType) else column
        made = text.try_cast(type_)
        return made if ignoring else F.coalesce(made, F.when(~text.rlike(_FAR_NUMBER), text.cast(type_)))
    if not any(isinstance(one, texts) for one in within(type_)):
        return column
    match type_:
        case st.StructType():
            fields = [from_texts(column.getField(f.name), f.dataType, *kinds, ignoring=ignoring).alias(f.name) for f in type_.fields]
            return F.when(column.isNotNull(), F.struct(*fields))
        case st.ArrayType():
            return F.transform(column, lambda item: from_texts(item, type_.elementType, *kinds, ignoring=ignoring))
    assert isinstance(type_, st.MapType)
    return F.transform_values(column, lambda _, value: from_texts(value, type_.valueType, *kinds, ignoring=ignoring))


def json_values(text: Column, schema: st.StructType | st.ArrayType, options: dict[str, str], *, ignoring: bool) -> Column:
    """``from_json``; a text with a far number anywhere, or what looks like one, has its DECIMALs read as texts.

    Spark makes a text of a number by way of a double: those that would not stay as they are get quotes before. Of a key that an object has
    twice the last one counts.
    """
    made = F.from_json(text, schema, options)
    if has_decimal(schema):
        floats = (st.DoubleType, st.FloatType)
        quoted = F.regexp_replace(text, F.lit(_UP_TO_LONG), F.lit('$1"$2"'))
        texts = F.from_json(quoted, as_texts(schema, *floats), options)
        careful = once(texts, lambda value: from_texts(value, schema, *floats, ignoring=ignoring))
        made = F.when(text.rlike(FAR), careful).otherwise(made)
    return last_of_each_key(made, schema)
