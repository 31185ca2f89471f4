"""Rows by their partition, which row bytes tell apart."""

from __future__ import annotations

import datetime as dt
import math
import struct

import pyarrow as pa
import pytest

from model.schema.schema import Schema, column, new_schema
from model.schema.types import TimestampType, VarCharType
from table.format.rows import binary_row
from table.scan.skipping.partition_filter import among
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


def test_times_that_differ_by_less_than_a_microsecond_are_two_partitions() -> None:
    types = [TimestampType(precision=9), VarCharType()]
    one = binary_row.encode_prefixed(types, (dt.datetime(2024, 1, 1), "a"))
    other = bytearray(one)
    other[4 + binary_row.header_size(2)] = 1  # the nanoseconds beside the place of the milliseconds
    beyond = bytearray(one)
    beyond[4 + binary_row.header_size(2) + 16 : 4 + binary_row.header_size(2) + 24] = struct.pack("<q", 10**16)
    among_these = among(types, [one])
    assert [among_these(bytes(row)) for row in (one, other, beyond, b"", b"\0\0\0\2")] == [True, False, False, False, False]
    null = binary_row.encode_prefixed(types, (None, "a"))
    assert among(types, [null])(null)
    assert not among(types, [null])(one)
