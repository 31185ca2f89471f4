"""The z-order key of two columns of whole numbers or times, as expressions Spark compiles: no row leaves the JVM for it.

The bits are those of `table.curve.zorder_keys`, in two BIGINTs that sort as its 16 bytes do. What Spark has no expression for
(the bits of a DOUBLE, a text's bytes) and other counts of columns go that way.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from sql.spark.reads import named

_SIGN = -(1 << 63)
_APART = ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333), (1, 0x5555555555555555))


def zorder_numbers(frame: DataFrame, names: Sequence[str]) -> list[Column] | None:
    """Two columns by which to sort; None where the key has to be made from Arrow arrays."""
    made = (_unsigned(named(name), frame.schema[name].dataType) for name in names)
    numbers = [number for number in made if number is not None]
    if len(names) != 2 or len(numbers) != 2:
        return None
    a, b = numbers
    low = F.lit(0xFFFFFFFF)
    halves = [(F.shiftrightunsigned(a, 32), F.shiftrightunsigned(b, 32)), (a.bitwiseAND(low), b.bitwiseAND(low))]
    return [F.shiftleft(_apart(x), 1).bitwiseOR(_apart(y)).bitwiseXOR(F.lit(_SIGN)) for x, y in halves]


def _unsigned(column: Column, type_: st.DataType) -> Column | None:
    """The value as a number without sign whose order is the column's; NULL is zero."""
    if isinstance(type_, st.ByteType | st.ShortType | st.IntegerType | st.LongType):
        number = column
    elif isinstance(type_, st.DateType):
        number = F.unix_date(column)
    elif isinstance(type_, st.TimestampType | st.TimestampNTZType):
        number = F.unix_micros(column.cast(st.TimestampType()))
    else:
        return None
    return F.coalesce(number.cast("bigint").bitwiseXOR(F.lit(_SIGN)), F.lit(0).cast("bigint"))


def _apart(half: Column) -> Column:
    """The 32 lower bits at every other place of 64; Spark computes what stands in it twice once."""
    for shift, mask in _APART:
        half = half.bitwiseOR(F.shiftleft(half, shift)).bitwiseAND(F.lit(mask))
    return half
