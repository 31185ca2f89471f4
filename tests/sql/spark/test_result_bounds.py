"""What leaves Spark is bounded in bytes, whatever its rows hold."""

from __future__ import annotations

import psutil
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from gateway.gateway import Gateway
from sql.spark.read import results
from sql.spark.read.results import FEW_BYTES, space_of_texts

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("types", "rows", "space"),
    [
        ([st.LongType()], 100_000, FEW_BYTES // 100_000 - 8),
        ([st.StringType()], 1, FEW_BYTES - 4),
        ([st.StringType(), st.LongType()], 100, FEW_BYTES // 100 - 12),
        ([st.StringType(), st.StringType()], 100, (FEW_BYTES // 100 - 8) // 2),
        ([st.StringType()], 100_000, None),
        ([st.ArrayType(st.LongType())], 1, None),
        ([st.DecimalType(38, 0)] * 100, 100_000, None),
        ([st.StringType()], 0, FEW_BYTES - 4),
    ],
)
def test_only_what_is_surely_small_is_collected(types: list[st.DataType], rows: int, space: int | None) -> None:
    assert space_of_texts(types, rows) == space


def test_wide_values_go_through_files_and_are_all_there(on_spark: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    real = results.write_rows

    def write_rows(frame: DataFrame, path: str) -> None:
        written.append(path)
        real(frame, path)

    monkeypatch.setattr(results, "write_rows", write_rows)
    few = "SELECT id, repeat(chr(CAST(97 + id AS INT)), {size}) AS s FROM range(40) WHERE id < 20 LIMIT 20"
    rows = on_spark.run(few.format(size=100)).collect()
    assert (sorted(rows)[1], written) == ((1, "b" * 100), [])
    rows = on_spark.run(few.format(size=2_000_000)).collect()
    assert sorted((id_, len(text), text[:1]) for id_, text in rows) == [(i, 2_000_000, chr(97 + i)) for i in range(20)]
    assert len(written) == 1


def test_a_result_much_larger_than_memory_is_read_in_small_parts(on_spark: Gateway) -> None:
    """750 MB of texts, most of them the same, of which a reader holds some megabytes at a time."""
    process = psutil.Process()
    before = process.memory_info().rss
    largest, total = 0, 0
    result = on_spark.run("SELECT repeat('x', 500000) AS s FROM range(1500)")
    for batch in result.batches():
        total += batch.num_rows
        largest = max(largest, batch.nbytes)
    assert total == 1500
    assert largest < 64 << 20
    assert process.memory_info().rss - before < 300 << 20


def test_a_result_in_files_keeps_microseconds(on_spark: Gateway) -> None:
    """The session writes tables' TIMESTAMPs as milliseconds; what shall have more is cast before, which a result is not."""
    (row,) = on_spark.run("SELECT timestamp_micros(-1), ARRAY(timestamp_micros(1704067200123456)), id FROM range(1)").collect()
    assert (row[0].microsecond, row[1][0].microsecond) == (999_999, 123_456)
