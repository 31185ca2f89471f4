"""Rows by their partition, which row bytes tell apart."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest

from model.schema.schema import Schema, column, new_schema
from table.format.rows import binary_row
from table.write.copy_on_write import _Place
from table.write.writer import route

NAN = struct.unpack("<d", struct.pack("<d", math.nan))[0]  # not the same object, and so not found by it
VALUES = [0.0, math.nan, -0.0, None, NAN, 1.5, 0.0, -0.0]


@pytest.fixture(params=["DOUBLE", "FLOAT"])
def schema(request: pytest.FixtureRequest) -> Schema:
    return new_schema([column("n", "INT"), column("d", request.param)], partition_keys=["d"], options={"bucket": "-1"})


def batch_of(schema: Schema) -> pa.RecordBatch:
    type_ = pa.float64() if schema.fields[1].type.root == "DOUBLE" else pa.float32()
    return pa.RecordBatch.from_arrays([pa.array(range(8), pa.int32()), pa.array(VALUES, type_)], names=["n", "d"])


def test_zeros_with_and_without_a_sign_are_two_partitions_and_nan_is_one(schema: Schema) -> None:
    parts = [(str(values[0]), rows.column(0).to_pylist()) for _, values, _, rows in route(schema, batch_of(schema))]
    assert parts == [("0.0", [0, 6]), ("nan", [1, 4]), ("-0.0", [2, 7]), ("None", [3]), ("1.5", [5])]
    for row, values, _, rows in route(schema, batch_of(schema)):
        assert row == binary_row.encode_prefixed([schema.fields[1].type], values)
        assert {str(value) for value in rows.column(1).to_pylist()} == {str(values[0])}


@pytest.mark.parametrize(("value", "rows"), [(0.0, [0, 6]), (-0.0, [2, 7]), (math.nan, [1, 4]), (None, [3])])
def test_a_place_holds_the_rows_of_its_own_zero(schema: Schema, value: float | None, rows: list[int]) -> None:
    place = _Place(schema, binary_row.encode_prefixed([schema.fields[1].type], (value,)), 0)
    assert place.holds(batch_of(schema)).nonzero()[0].tolist() == rows
    assert place.holds(batch_of(schema).slice(0, 0)).tolist() == []
