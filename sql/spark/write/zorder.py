"""The z-order key of two columns of whole numbers or times, as expressions Spark compiles: no row leaves the JVM for it.

The 16 bytes of `table.compaction.curves.zorder_keys` are two BIGINTs here; or, which Spark sorts in two thirds of the time, one of the
lower 32 bits where those above tell nothing. What Spark has no expression for (the bits of a DOUBLE, a text's
bytes) and other counts of columns go that way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from model.schema.schema import Schema
from sql.spark.read.reads import named
from table.compaction.curves import APART
from table.format.manifests.entries import ManifestEntry
from table.format.rows.stats import NOTHING, column_stats

_SIGN = -(1 << 63)
_INT_SIGN = _SIGN ^ (1 << 31)
"""Turns the sign of a number of 32 bits around where it stands and in its copy that is the lower half's first bit."""
_LOW = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class _Number:
    """A column's value as a number without sign whose order is the column's; NULL is zero."""

    value: Column
    narrow: bool
    """Whether the lower 32 bits tell the order."""


def zorder_numbers(frame: DataFrame, names: Sequence[str], *, alike: frozenset[str] = frozenset()) -> list[Column] | None:
    """One or two columns by which to sort; None where the key has to be made from Arrow arrays.

    ``alike`` are BIGINT columns without NULL whose values do not differ in their upper 32 bits.
    """
    made = (_number(name, frame.schema[name].dataType, alike=name in alike) for name in names)
    numbers = [number for number in made if number is not None]
    if len(names) != 2 or len(numbers) != 2:
        return None
    a, b = (number.value for number in numbers)
    lower = _in_turns(a.bitwiseAND(F.lit(_LOW)), b.bitwiseAND(F.lit(_LOW)))
    if all(number.narrow for number in numbers):
        return [lower]
    return [_in_turns(F.shiftrightunsigned(a, 32), F.shiftrightunsigned(b, 32)), lower]


def alike(entries: Iterable[ManifestEntry], schema: Schema, names: Sequence[str]) -> frozenset[str]:
    """The BIGINT columns of which the files' statistics say that no value is NULL or differs in its upper 32 bits."""
    numbers = {name for name in names if schema.field(name).type.root == "BIGINT"}
    upper: dict[str, set[int]] = {name: set() for name in numbers}
    for entry in entries:
        if not numbers:
            break
        file = entry.file
        stats = column_stats(file.value_stats, file.value_stats_cols, schema) if file.schema_id == schema.id else {}
        for name in list(numbers):
            known = stats.get(name, NOTHING)
            if isinstance(known.min, int) and isinstance(known.max, int) and known.null_count == 0:
                upper[name] |= {known.min >> 32, known.max >> 32}
            if len(upper[name]) != 1 or known.null_count != 0:
                numbers.discard(name)
    return frozenset(numbers)


def _number(name: str, type_: st.DataType, *, alike: bool) -> _Number | None:
    column = named(name)
    if isinstance(type_, st.ByteType | st.ShortType | st.IntegerType):
        return _Number(value=_unsigned(column, _INT_SIGN), narrow=True)
    if isinstance(type_, st.DateType):
        return _Number(value=_unsigned(F.unix_date(column), _INT_SIGN), narrow=True)
    if isinstance(type_, st.LongType):
        return _Number(value=_unsigned(column, _SIGN), narrow=alike)
    if isinstance(type_, st.TimestampType | st.TimestampNTZType):
        return _Number(value=_unsigned(F.unix_micros(column.cast(st.TimestampType())), _SIGN), narrow=False)
    return None


def _unsigned(number: Column, turned: int) -> Column:
    return F.coalesce(number.cast("bigint").bitwiseXOR(F.lit(turned)), F.lit(0).cast("bigint"))


def _in_turns(a: Column, b: Column) -> Column:
    """The lower 32 bits of both in turns, as a BIGINT that sorts as those bits do."""
    return F.shiftleft(_apart(a), 1).bitwiseOR(_apart(b)).bitwiseXOR(F.lit(_SIGN))


def _apart(half: Column) -> Column:
    """The 32 lower bits at every other place of 64; Spark computes what stands in it twice once."""
    for shift, mask in APART:
        half = half.bitwiseOR(F.shiftleft(half, shift)).bitwiseAND(F.lit(mask))
    return half
