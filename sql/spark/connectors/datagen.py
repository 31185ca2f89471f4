"""Made-up rows: a Python source counts them, and Spark's own expressions make the values from the number.

A value depends on its row's number, its column and nothing else, and a time on the moment the row's turn came, which the offsets of
its batch tell: a batch that is run again makes the same rows.
"""

from __future__ import annotations

import time
from functools import reduce
from zlib import crc32

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from model.errors import InvalidOption
from model.options.watermark import END_OF_TIME
from model.schema.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from sql.connectors import ConnectorScope, ConnectorTable
from sql.connectors.datagen import NUMBER_OF_ROWS, ROWS_PER_SECOND, SCAN_PARALLELISM, FieldRule, integer_limits, row_count, rules_of
from sql.spark.connectors.base import SparkConnector
from sql.spark.executors.row_numbers import MICROS, RowNumbers
from sql.spark.read.reads import named
from sql.spark.read.types import to_spark
from sql.spark.session.zone import plain

_DAY = 86_400
_IS_LAST = "__sluice_is_last"


class SparkDatagen(SparkConnector):
    """Makes rows up."""

    def read(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """All its rows at once; raises `InvalidOption` where they have no end."""
        count = row_count(table)
        if count is None:
            raise InvalidOption(f"{table.name} has no end; give it '{NUMBER_OF_ROWS.key}', or read it in streaming mode.")
        now = int(time.time() * MICROS)
        numbers = session.range(0, count, 1, SCAN_PARALLELISM.read(table.options) or session.sparkContext.defaultParallelism)
        return _made(numbers.select(F.col("id").alias("n"), F.lit(now).alias("at")), table)

    def follow(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """So many rows each second, and where there is a watermark one more behind the last."""
        session.dataSource.register(RowNumbers)
        reader = session.readStream.format(RowNumbers.name()).option("speed", ROWS_PER_SECOND.read(table.options))
        reader = reader.option("tasks", SCAN_PARALLELISM.read(table.options) or session.sparkContext.defaultParallelism)
        count = row_count(table)
        if count is None:
            return _made(reader.load(), table)
        reader = reader.option("count", count)
        if not self.ends_event_time(table):
            return _made(reader.load(), table)
        return _made_to_the_end(reader.option("lastNumber", "true").load(), table, count)

    def ends_event_time(self, table: ConnectorTable) -> bool:
        """Where its rows have an end."""
        return table.watermark is not None and row_count(table) is not None


def _made(numbers: DataFrame, table: ConnectorTable) -> DataFrame:
    frame = numbers if (count := row_count(table)) is None else numbers.where(F.col("n") < count)
    return frame.select(*_values(table))


def _made_to_the_end(numbers: DataFrame, table: ConnectorTable, count: int) -> DataFrame:
    """The rows of all numbers before the count, and for that one the row that ends event time."""
    assert table.watermark is not None
    column, is_last = table.watermark.column, F.col(_IS_LAST)
    frame = numbers.where(F.col("n") <= count).withColumn(_IS_LAST, F.col("n") == count)
    frame = frame.withColumn("n", F.when(is_last, 0).otherwise(F.col("n")))  # of the count itself a sequence may have no value
    frame = frame.select(*_values(table), _IS_LAST)
    with plain(frame.sparkSession):
        end = F.timestamp_millis(F.lit(END_OF_TIME)).cast(frame.schema[column].dataType)
        return frame.withColumn(column, F.when(is_last, end).otherwise(named(column))).drop(_IS_LAST)


def _values(table: ConnectorTable) -> list[Column]:
    rules = {rule.path: rule for rule in rules_of(table)}
    return [_value(rules[column.name], rules).alias(column.name) for column in table.columns]


def _value(rule: FieldRule, rules: dict[str, FieldRule], salt: Column | None = None) -> Column:
    if rule.sequence:
        return (F.col("n") + F.lit(rule.start)).cast(to_spark(rule.type))
    made = _random(rule, rules, salt).cast(to_spark(rule.type))
    return F.when(_share(rule, "null", salt) >= F.lit(rule.nulls), made) if rule.nulls else made


def _bits(rule: FieldRule, what: str, salt: Column | None) -> Column:
    """64 bits that look random: a hash of the row's number, the column and what they are for."""
    seed = F.lit(crc32(f"{rule.path}/{what}".encode()))
    return F.xxhash64(F.col("n"), seed) if salt is None else F.xxhash64(F.col("n"), seed, salt)


def _share(rule: FieldRule, what: str, salt: Column | None) -> Column:
    """A number from 0 up to, and without, 1."""
    return F.shiftrightunsigned(_bits(rule, what, salt), 11).cast("double") / F.lit(float(1 << 53))


def _random(rule: FieldRule, rules: dict[str, FieldRule], salt: Column | None) -> Column:
    type_ = rule.type
    if isinstance(type_, BooleanType):
        return _bits(rule, "value", salt) >= F.lit(0)
    if (limits := integer_limits(type_)) is not None:
        return _integer(rule, limits, salt)
    if isinstance(type_, FloatType | DoubleType | DecimalType):
        return _number(rule, salt)
    if isinstance(type_, CharType | VarCharType | BinaryType | VarBinaryType):
        return _text(rule, salt)
    if isinstance(type_, DateType):
        return F.date_from_unix_date(F.floor(F.col("at") / F.lit(_DAY * MICROS)).cast("int"))
    if isinstance(type_, TimeType):
        return F.call_function("time_from_micros", F.pmod(F.col("at"), F.lit(_DAY * MICROS)))
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        past = F.floor(_share(rule, "value", salt) * F.lit(rule.past.total_seconds() * MICROS)).cast("bigint")
        return F.timestamp_micros(F.col("at") - past).cast(to_spark(type_))
    if isinstance(type_, RowType):
        return F.struct(*[_value(rules[f"{rule.path}.{part.name}"], rules, salt).alias(part.name) for part in type_.fields])
    assert isinstance(type_, ArrayType | MapType)
    return _collection(rule, type_)


def _integer(rule: FieldRule, limits: tuple[int, int], salt: Column | None) -> Column:
    low = limits[0] if rule.low is None else int(rule.low)
    high = limits[1] if rule.high is None else int(rule.high)
    if high - low >= (1 << 63) - 1:  # too many values for a remainder: nearly all numbers of 64 bits
        return F.greatest(F.lit(low), F.least(F.lit(high), _bits(rule, "value", salt)))
    return F.pmod(_bits(rule, "value", salt), F.lit(high - low + 1)) + F.lit(low)


def _number(rule: FieldRule, salt: Column | None) -> Column:
    low, high = rule.low, rule.high
    if isinstance(rule.type, DecimalType):
        whole = 10.0 ** (rule.type.precision - rule.type.scale)
        most = min(whole - 10.0**-rule.type.scale, whole * (1 - 1e-12))  # what is rounded up must still fit
        low, high = (-most if low is None else low), (most if high is None else high)
    limit = (3.4e38 if isinstance(rule.type, FloatType) else 1.7e308) / 2
    low, high = (-limit if low is None else low), (limit if high is None else high)
    return F.lit(float(low)) + _share(rule, "value", salt) * F.lit(float(high) - float(low))


def _text(rule: FieldRule, salt: Column | None) -> Column:
    """Hexadecimal digits, as Flink's texts are; binary values are the digits' bytes."""
    pieces = -(-rule.length // 32)
    salts = [] if salt is None else [salt]
    digits = [F.md5(F.concat_ws("/", F.lit(f"{rule.path}/{piece}"), F.col("n"), *salts)) for piece in range(pieces)]
    whole = F.concat(*digits) if pieces > 1 else digits[0]
    length: Column | int = rule.length
    if rule.any_length:
        length = (F.pmod(_bits(rule, "length", salt), F.lit(rule.length)) + F.lit(1)).cast("int")
    return F.substring(whole, 1, length)


def _collection(rule: FieldRule, type_: ArrayType | MapType) -> Column:
    """Items are told apart by their place."""
    places = F.sequence(F.lit(1), F.lit(rule.length))

    def item(path: str, of: DataType, place: Column) -> Column:
        inner = FieldRule(path=f"{rule.path}.{path}", type=of, length=min(100, getattr(of, "length", 100)))
        inner_rules = {inner.path: inner} | _parts(inner.path, of)
        return _value(inner, inner_rules, place)

    if isinstance(type_, ArrayType):
        return F.transform(places, lambda place: item("element", type_.element, place))
    keys = F.array_distinct(F.transform(places, lambda place: item("key", type_.key, place)))
    values = F.transform(F.slice(places, 1, F.size(keys)), lambda place: item("value", type_.value, place))
    return F.map_from_arrays(keys, values)


def _parts(path: str, type_: DataType) -> dict[str, FieldRule]:
    if not isinstance(type_, RowType):
        return {}
    rules = {f"{path}.{part.name}": FieldRule(path=f"{path}.{part.name}", type=part.type) for part in type_.fields}
    return reduce(lambda all_, part: all_ | _parts(f"{path}.{part.name}", part.type), type_.fields, rules)
