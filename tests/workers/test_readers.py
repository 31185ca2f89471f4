"""Bodies whose values are named by dictionaries or views become rows a bounded piece at a time, and as what was sent."""

from __future__ import annotations

import datetime as dt
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.errors import InvalidData
from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, Field, IntType, VarCharType
from workers.readers import arrow_batches, ndjson_batches, parquet_batches, readable

SCHEMA = Schema(
    id=0,
    highest_field_id=2,
    fields=(
        Field(id=0, name="texts", type=ArrayType(element=VarCharType())),
        Field(id=1, name="text", type=VarCharType()),
        Field(id=2, name="id", type=IntType()),
    ),
)
MOST_BYTES = 9 << 20


def _arrow(batch: pa.RecordBatch) -> io.BytesIO:
    body = io.BytesIO()
    with pa.ipc.new_stream(body, batch.schema) as stream:
        stream.write_batch(batch)
    return io.BytesIO(body.getvalue())


def test_lists_that_are_views_arrive_as_they_were_sent() -> None:
    values = pa.array(["a", "b", "c", "d"])
    views = pa.ListViewArray.from_arrays(
        pa.array([2, 0, 1, 0], pa.int32()), pa.array([2, 3, 0, 1], pa.int32()), values, mask=pa.array([False, False, False, True])
    )
    batch = pa.RecordBatch.from_pydict({"texts": views, "id": pa.array(range(4), pa.int32())})
    rows = [row for part in arrow_batches(_arrow(batch), SCHEMA, "t") for row in part.to_pylist()]
    assert [row["texts"] for row in rows] == [["c", "d"], ["a", "b", "c"], [], None]


def test_a_small_body_that_unpacks_to_much_comes_in_pieces() -> None:
    rows = 5_000
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 200_000]))
    batch = pa.RecordBatch.from_pydict({"text": named, "id": pa.array(range(rows), pa.int32())})
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), file, compression="zstd")
    for batches in (arrow_batches(_arrow(batch), SCHEMA, "t"), parquet_batches(io.BytesIO(file.getvalue()), SCHEMA, "t")):
        seen = 0
        for part in batches:
            assert part.nbytes <= MOST_BYTES
            assert part.column("id").to_pylist() == list(range(seen, seen + part.num_rows))
            seen += part.num_rows
        assert seen == rows


def test_a_row_that_unpacks_to_more_than_a_gigabyte_is_refused() -> None:
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000, np.int32)), pa.array(["x" * (1 << 20)]))
    lists = pa.ListArray.from_arrays(pa.array([0, 2_000], pa.int32()), named)
    body = _arrow(pa.RecordBatch.from_pydict({"texts": lists}))
    with pytest.raises(InvalidData, match="1 rows takes 2,"):
        list(readable(arrow_batches(body, SCHEMA, "t")))


def test_a_batch_that_unpacks_to_a_terabyte_is_refused_before_its_first_row() -> None:
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int32)), pa.array(["x" * (1 << 20)]))
    batches = readable(arrow_batches(_arrow(pa.RecordBatch.from_pydict({"text": named})), SCHEMA, "t"))
    with pytest.raises(InvalidData, match="a batch of 1,000,000 rows takes 1,048,5"):
        next(batches)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("TIMESTAMP(6)", "2024-01-01T00:00:00.123456789"),
        ("TIMESTAMP(3)", "2024-01-01T00:00:00.1230009"),
        ("TIMESTAMP_LTZ(6)", "2024-01-01T00:00:00.1234569Z"),
        ("TIME(3)", "10:00:00.1230009"),
        ("FLOAT", 1e300),
    ],
)
def test_a_value_of_json_that_loses_something_is_refused_by_row(type_: str, value: object) -> None:
    schema = new_schema([column("v", type_)], options={"bucket": "-1"})
    lines = [json.dumps({"v": one}).encode() for one in (None, value)]
    with pytest.raises(InvalidData, match="row 2"):
        list(ndjson_batches(io.BytesIO(b"\n".join(lines)), schema, "t"))


@pytest.mark.parametrize(
    ("type_", "value", "stored"),
    [
        ("TIMESTAMP(6)", "2024-01-01T00:00:00.123456000", dt.datetime(2024, 1, 1, microsecond=123_456)),
        ("TIME(3)", "10:00:00.123000", dt.time(10, microsecond=123_000)),
        ("FLOAT", "Infinity", float("inf")),
        ("FLOAT", 3.4028235677973366e38 * (1 - 2**-24), 3.4028234663852886e38),
    ],
)
def test_a_value_of_json_that_loses_nothing_is_taken(type_: str, value: object, stored: object) -> None:
    schema = new_schema([column("v", type_)], options={"bucket": "-1"})
    (batch,) = ndjson_batches(io.BytesIO(json.dumps({"v": value}).encode()), schema, "t")
    assert batch.column(0).to_pylist() == [stored]
