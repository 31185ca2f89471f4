"""Z-order keys as Spark's expressions beside those of Arrow arrays: the same order."""

from __future__ import annotations

import datetime as dt
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lake import Lake
from sql.spark.session.zone import plain
from sql.spark.write.zorder import alike, zorder_numbers
from table.compaction.curves import zorder_keys
from tests.lake.rewrite.test_compaction import append, live
from tests.sql.tables import make_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, -1, 0, 1, 127, None],
    pa.int16(): [-(2**15), 0, 77, None, 2**15 - 1],
    pa.int32(): [None, 1 - 2**31, -5, 0, 2**31 - 1],
    pa.int64(): [-(2**63), -(2**32) - 1, -1, 0, 1, 2**33 + 12345, 2**63 - 1, None],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), None, dt.date(9999, 12, 31)],
    pa.timestamp("us"): [dt.datetime(1600, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, dt.datetime(2026, 1, 1, 2, 3, 4, 5)],
    pa.timestamp("us", tz="UTC"): [dt.datetime(1, 1, 2, tzinfo=dt.UTC), None, dt.datetime(2026, 11, 22, 1, 2, 3, tzinfo=dt.UTC)],
}
NAMES = ["a `quoted`", "b"]


def order_on_spark(spark: SparkSession, columns: list[pa.Array], alike: frozenset[str] = frozenset()) -> tuple[list[int], int]:
    """The rows' numbers in the order of their keys, and of how many columns a key is made."""
    with plain(spark):
        frame = spark.createDataFrame(pa.table(columns, names=NAMES))
        made = zorder_numbers(frame, NAMES, alike=alike)
        assert made is not None
        keys = [tuple(row) for row in frame.select(*made).collect()]
    return sorted(range(len(keys)), key=keys.__getitem__), len(made)


def _narrow(column: pa.Array) -> pa.Array:
    if column.type == pa.int64():
        return pa.array([(value & 0xFFFFFFFF) - 2**31 for value in column.to_pylist()], pa.int32())
    return pc.fill_null(column.cast(pa.int32()), -(2**31))


def order_by_arrow(columns: list[pa.Array], *, narrow: bool) -> list[int]:
    """In one BIGINT all are numbers of 32 bits, and a NULL is the smallest of them."""
    if narrow:
        columns = [_narrow(column) for column in columns]
    keys = zorder_keys(columns).to_pylist()
    return sorted(range(len(keys)), key=keys.__getitem__)


@pytest.mark.parametrize("first", VALUES, ids=str)
@pytest.mark.parametrize("second", [pa.int32(), pa.int64(), pa.timestamp("us")], ids=str)
def test_the_order_is_that_of_the_arrow_keys(spark: SparkSession, first: pa.DataType, second: pa.DataType) -> None:
    pairs = list(product(VALUES[first], VALUES[second]))
    columns = [pa.array(values, type_) for values, type_ in zip(zip(*pairs, strict=True), (first, second), strict=True)]
    order, width = order_on_spark(spark, columns)
    narrow = first.bit_width <= 32 and second.bit_width <= 32
    assert (order, width) == (order_by_arrow(columns, narrow=narrow), 1 if narrow else 2)


@pytest.mark.parametrize("base", [0, -(2**32), 7 << 40])
def test_what_differs_in_the_lower_half_alone_needs_one_column(spark: SparkSession, base: int) -> None:
    pairs = list(product([base, base + 1, base + 2**31, base + 2**32 - 1], [-5, 0, 3, None]))
    columns = [pa.array([a for a, _ in pairs], pa.int64()), pa.array([b for _, b in pairs], pa.int32())]
    assert order_on_spark(spark, columns, frozenset(NAMES[:1])) == (order_by_arrow(columns, narrow=True), 1)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([[1, 2], [2**32 - 1, 5]], {"id"}),
        ([[-1, -(2**32)]], {"id"}),
        ([[1], [2**32]], set()),
        ([[-1, 0]], set()),
        ([[1, None]], set()),
        ([[None]], set()),
    ],
)
def test_statistics_tell_what_is_alike(lake: Lake, files: list[list[int | None]], expected: set[str]) -> None:
    table = make_table(lake, options={"bucket": "-1"}, id="BIGINT", b="BIGINT")
    for ids in files:
        append(lake, table, ids, b=[None] * len(ids))  # type: ignore[arg-type]
    assert alike(live(table), table.schema, ["id", "b"]) == expected


def test_what_spark_has_no_expression_for_is_left_to_arrow(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({"a": [1], "b": [2], "c": [3], "text": ["x"], "double": [0.5]}))
    assert zorder_numbers(frame, ["a", "b", "c"]) is None
    assert zorder_numbers(frame, ["a"]) is None
    assert zorder_numbers(frame, ["a", "text"]) is None
    assert zorder_numbers(frame, ["double", "a"]) is None
