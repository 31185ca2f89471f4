"""Rows parted into ranges of a key that weigh the same, so that tasks that sort have as much to do as each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as st

from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from sql.spark.read.reads import named

_RANGE = "__sluice_range"
_KEY = "__sluice_range_key"
_MOST_SAMPLED = 1000
"""Rows looked at for each range at most, whatever the magnification is."""
_BYTES = {"tinyint": 1, "smallint": 2, "int": 4, "date": 4, "float": 4, "boolean": 1}
_OTHER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRules:
    """How a table's rows are parted when they are sorted."""

    by_size: bool
    """Whether rows count by their bytes, and not one like the other."""
    sampled: int
    """Rows looked at for each range."""

    @classmethod
    def of(cls, schema: Schema) -> RangeRules:
        """What the table's options say."""
        strategy = TABLE_OPTIONS.read(schema.options, "sort-compaction.range-strategy")
        magnification: int = TABLE_OPTIONS.read(schema.options, "sort-compaction.local-sample.magnification")
        return cls(by_size=strategy == "size", sampled=min(_MOST_SAMPLED, magnification))

    def share(self, rows: int, ranges: int) -> float:
        """The share of so many rows that is looked at."""
        return min(1.0, self.sampled * ranges / max(1, rows))


def in_ranges(frame: DataFrame, by: Sequence[Column], *, rows: int, ranges: int, rules: RangeRules) -> DataFrame:
    """The rows in so many Spark partitions, each a range of the key; the frame is read twice, for the sample and for the rows.

    Rows of one key stay together. The bounds stay with Spark: a key may be of any types that have an order.
    """
    key = F.struct(*by)
    weight = _size(frame) if rules.by_size else F.lit(1).cast("bigint")
    sample = frame.select(key.alias(_KEY), weight.alias("weight")).sample(fraction=rules.share(rows, ranges), seed=0)
    before = Window.orderBy(_KEY).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    everything = Window.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    placed = sample.select(
        _KEY, (F.sum("weight").over(before) - F.col("weight")).alias("before"), F.sum("weight").over(everything).alias("all")
    )
    numbered = placed.select(_KEY, F.floor(F.col("before") * ranges / F.col("all")).alias("range"))
    first = numbered.where(F.col("range") > 0).groupBy("range").agg(F.min(_KEY).alias(_KEY))
    bounds = first.agg(F.sort_array(F.collect_set(_KEY)).alias("bounds"))
    return _parted(frame, key, bounds.scalar(), ranges)


def _parted(frame: DataFrame, key: Column, bounds: Column, ranges: int) -> DataFrame:
    """A row goes to the range whose number is that of the bounds up to its key, found by halves, a column for each step."""
    placed = frame.withColumns({_KEY: key, _RANGE: F.lit(0)})
    for step in (1 << bit for bit in reversed(range((ranges - 1).bit_length()))):
        bound = F.get(bounds, F.col(_RANGE) + F.lit(step - 1))
        placed = placed.withColumn(_RANGE, F.col(_RANGE) + F.when(bound <= F.col(_KEY), F.lit(step)).otherwise(F.lit(0)))
    return placed.repartitionById(ranges, F.col(_RANGE)).drop(_KEY, _RANGE)


def _size(frame: DataFrame) -> Column:
    """The bytes of a row, as Paimon counts them: of what has a length that, of a NULL nothing; of nested values those of their JSON."""
    parts = [F.coalesce(_size_of(named(field.name), field.dataType), F.lit(0)).cast("bigint") for field in frame.schema.fields]
    total = F.lit(1).cast("bigint")  # what weighs nothing would be in no range
    for part in parts:
        total = total + part
    return total


def _size_of(column: Column, type_: st.DataType) -> Column:
    if isinstance(type_, st.StringType | st.BinaryType):
        return F.octet_length(column)
    if isinstance(type_, st.ArrayType | st.MapType | st.StructType):
        return F.octet_length(F.to_json(column))
    return F.when(column.isNotNull(), F.lit(_BYTES.get(type_.simpleString(), _OTHER_BYTES)))
