"""Rows parted into ranges by their bytes or their number, on a real Spark."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from lake import Lake
from model.schema.schema import column, new_schema
from sql.spark.write.ranges import RangeRules, in_ranges
from sql.spark.write.sorting import Order, sort_files
from tests.lake.rewrite.test_compaction import append, live
from tests.short import short
from tests.sql.tables import make_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
QUANTITY = {"sort-compaction.range-strategy": "quantity"}
LARGE, ROWS = 100, 2000
"""So many rows have a long text, and their keys are the first ones."""


def rules(**options: str) -> RangeRules:
    return RangeRules.of(new_schema([column("a", "INT")], options={"bucket": "-1", **options}))


def parted(spark: SparkSession, keys: Sequence[Any], sizes: Sequence[int], ranges: int, how: RangeRules) -> list[list[Any]]:
    """The keys of each range."""
    rows = list(zip(keys, ["x" * size for size in sizes], strict=True))
    random.Random(1).shuffle(rows)
    frame = spark.createDataFrame(rows, "k int, s string")
    found = in_ranges(frame, [F.col("k")], rows=len(rows), ranges=ranges, rules=how)
    assert found.columns == ["k", "s"]
    placed = found.select("k", F.spark_partition_id()).collect()
    return [[k for k, at in placed if at == number] for number in range(ranges)]


@pytest.mark.parametrize("ranges", short([2, 4, 7], [4]))
def test_ranges_by_number_hold_as_many_rows_and_by_size_as_many_bytes(spark: SparkSession, ranges: int) -> None:
    sizes = [1000 if n < LARGE else 0 for n in range(ROWS)]
    by_number = parted(spark, range(ROWS), sizes, ranges, rules(**QUANTITY))
    by_size = parted(spark, range(ROWS), sizes, ranges, rules())
    for found in (by_number, by_size):
        assert sorted(k for keys in found for k in keys) == list(range(ROWS))
        assert all(max(one) < min(other) for one, other in pairwise(found)), "each is a range"
    assert all(abs(len(keys) - ROWS / ranges) < 2 for keys in by_number)
    weights = [sum(sizes[k] + 5 for k in keys) for keys in by_size]
    assert all(abs(weight - sum(weights) / ranges) < 2100 for weight in weights), weights
    assert len(by_size[0]) < LARGE < len(by_number[0])


def test_rows_of_one_key_and_those_without_stay_together(spark: SparkSession) -> None:
    keys = [None] * 10 + [7] * 500 + [8, 9]
    found = parted(spark, keys, [1] * len(keys), 4, rules())
    assert [sum(key in keys for keys in found) for key in (None, 7, 8, 9)] == [1, 1, 1, 1]
    assert sum(map(len, found)) == len(keys)


def test_the_magnification_says_how_many_rows_are_looked_at() -> None:
    assert rules().share(1_000_000, 10) == 0.01
    assert rules(**{"sort-compaction.local-sample.magnification": "20"}).share(1_000_000, 10) == 0.0002
    assert rules(**{"sort-compaction.local-sample.magnification": "9000"}).share(1_000_000, 10) == 0.01
    assert rules().share(50, 10) == rules().share(0, 10) == 1.0


@pytest.mark.parametrize("strategy", short(["order", "zorder"], ["order"]))
def test_a_compaction_that_sorts_parts_the_rows_of_its_tasks_so(spark: SparkSession, lake: Lake, strategy: str) -> None:
    """By number the first of four files' tasks has all the long texts; by size each has about as many bytes."""
    found = {}
    for how in ("size", "quantity"):
        options = {"bucket": "-1", "file.compression": "none", "target-file-size": "60 kb", "parquet.enable.dictionary": "false"}
        table = make_table(lake, how + strategy, options={**options, "sort-compaction.range-strategy": how}, id="INT", s="STRING")
        rng = random.Random(2)
        keys = rng.sample(range(ROWS), ROWS)
        append(lake, table, keys, s=["".join(rng.choices("abcdef", k=2000 if key < LARGE else 1)) for key in keys])
        order = Order(columns=["id"], strategy=strategy, text_bytes=8)
        found[how] = [new.file.row_count for new in sort_files(spark, table, live(table), order)]
        assert sum(found[how]) == ROWS
    assert min(found["size"]) < LARGE
    assert found["size"] != found["quantity"]
