"""Z-order keys as Spark's expressions beside those of Arrow arrays: the same bits."""

from __future__ import annotations

import datetime as dt
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sql.spark.zone import plain
from sql.spark.zorder import zorder_numbers
from table.curve import zorder_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_TURN = 1 << 63
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, -1, 0, 1, 127, None],
    pa.int16(): [-(2**15), 0, 77, None, 2**15 - 1],
    pa.int32(): [None, -(2**31), -5, 0, 2**31 - 1],
    pa.int64(): [-(2**63), -(2**32) - 1, -1, 0, 1, 2**33 + 12345, 2**63 - 1, None],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), None, dt.date(9999, 12, 31)],
    pa.timestamp("us"): [
        dt.datetime(1600, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        None,
        dt.datetime(2026, 11, 22, 1, 2, 3, 4),
    ],
    pa.timestamp("us", tz="UTC"): [dt.datetime(1, 1, 2, tzinfo=dt.UTC), None, dt.datetime(2026, 11, 22, 1, 2, 3, tzinfo=dt.UTC)],
}


@pytest.mark.parametrize("first", VALUES, ids=str)
@pytest.mark.parametrize("second", [pa.int64(), pa.timestamp("us")], ids=str)
def test_the_bits_are_those_of_the_arrow_keys(spark: SparkSession, first: pa.DataType, second: pa.DataType) -> None:
    columns = [pa.array(islice(cycle(VALUES[type_]), 40), type_) for type_ in (first, second)]
    with plain(spark):
        frame = spark.createDataFrame(pa.table(columns, names=["a `quoted`", "b"]))
        made = zorder_numbers(frame, ["a `quoted`", "b"])
        assert made is not None
        found = frame.select(*made).collect()
    as_bytes = [((row[0] + _TURN) << 64 | (row[1] + _TURN)).to_bytes(16, "big") for row in found]
    assert as_bytes == zorder_keys(columns).to_pylist()


def test_what_spark_has_no_expression_for_is_left_to_arrow(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({"a": [1], "b": [2], "c": [3], "text": ["x"], "double": [0.5]}))
    assert zorder_numbers(frame, ["a", "b", "c"]) is None
    assert zorder_numbers(frame, ["a"]) is None
    assert zorder_numbers(frame, ["a", "text"]) is None
    assert zorder_numbers(frame, ["double", "a"]) is None
