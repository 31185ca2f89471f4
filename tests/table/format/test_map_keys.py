"""Rows whose MAP has one key twice are refused, however deep it stands."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from model.errors import InvalidData
from model.schema.schema import Schema
from model.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntType,
    MapType,
    RowType,
    TimestampType,
    VarBinaryType,
    VarCharType,
)
from table.format.rows.arrow import arrow_type
from table.format.rows.cast import Fitting, fit

INT = IntType(nullable=False)
MAP = MapType(key=INT, value=VarCharType())
OF_ROWS = RowType(
    fields=(Field(id=1, name="x", type=IntType()), Field(id=2, name="y", type=ArrayType(element=DoubleType()))), nullable=False
)
OTHER_NAN = float(np.array([0xFFF8000000000007], np.uint64).view(np.float64)[0])


def one(type_: DataType) -> Schema:
    return Schema(id=0, fields=(Field(id=0, name="m", type=type_),), highest_field_id=9)


def fitted(values: pa.Array, type_: DataType, first_row: int = 0) -> list[Any]:
    batch = pa.RecordBatch.from_arrays([values], ["m"])
    found: list[Any] = fit(batch, one(type_), Fitting(first_row=first_row)).column(0).to_pylist()
    return found


@pytest.mark.parametrize(
    ("type_", "rows", "message"),
    [
        (MAP, [[(1, "a")], None, [(2, "a"), (1, "b"), (2, "c")], [(3, "a"), (3, "a")]], "Column m, row 3: the MAP has the key 2 twice."),
        (ArrayType(element=MAP), [None, [[(1, "a")], None, [(1, "a"), (1, "b")]]], "Column m.element, row 2: the MAP has the key 1 twice."),
        (
            RowType(fields=(Field(id=1, name="of", type=MAP),)),
            [None, {"of": None}, {"of": [(1, "a"), (1, "b")]}],
            "Column m.of, row 3: the MAP has the key 1 twice.",
        ),
        (
            MapType(key=VarCharType(nullable=False), value=MAP),
            [[("a", [(1, "a")]), ("b", [(1, "a")])], [("a", [(1, "a"), (1, "a")])]],
            "Column m.value, row 2: the MAP has the key 1 twice.",
        ),
    ],
)
def test_a_map_with_one_key_twice_is_refused_by_its_row(type_: DataType, rows: list[Any], message: str) -> None:
    array = pa.array(rows, arrow_type(type_))
    with pytest.raises(InvalidData, match=re.escape(message)):
        fitted(array, type_)
    with pytest.raises(InvalidData, match=re.escape(message)):
        fitted(pa.concat_arrays([array[:1], array])[1:], type_)  # a slice, whose offsets do not begin at 0
    fine = len(rows) - 2 if type_ == MAP else len(rows) - 1
    assert fitted(array[:fine], type_) == rows[:fine]


@pytest.mark.parametrize(
    ("key", "same", "others"),
    [
        (VarCharType(nullable=False), ["a", "a"], ["a", "A", "a ", "\u00e9", "e\u0301", ""]),
        (VarBinaryType(nullable=False), [b"a", b"a"], [b"a", b"a\0", b""]),
        (DoubleType(nullable=False), [0.0, -0.0], [0.0, 5e-324, float("inf"), float("-inf"), float("nan")]),
        (DoubleType(nullable=False), [float("nan"), OTHER_NAN], [float("nan"), 1.0]),
        (FloatType(nullable=False), [float("nan"), OTHER_NAN], [float("nan"), -0.0]),
        (DecimalType(precision=38, scale=2, nullable=False), ["1.5", "1.50"], ["1.5", "1.51"]),
        (TimestampType(precision=6, nullable=False), [1, 1], [0, 1, -1]),
        (ArrayType(element=DoubleType(), nullable=False), [[1.0, -0.0], [1.0, 0.0]], [[1.0], [1.0, None], [1.0, 0.0], [], [None, 1.0]]),
        (OF_ROWS, [{"x": 1, "y": [0.0]}, {"x": 1, "y": [-0.0]}], [{"x": 1, "y": None}, {"x": 1, "y": []}, {"x": None, "y": []}]),
    ],
)
def test_keys_are_one_where_spark_takes_them_for_one(key: DataType, same: list[Any], others: list[Any]) -> None:
    type_ = MapType(key=key, value=IntType())

    def maps(keys: list[Any]) -> pa.Array:
        values = pa.array(keys).cast(arrow_type(key)) if isinstance(key, DecimalType) else pa.array(keys, arrow_type(key))
        counts = pa.array([0, len(keys), len(keys) + 1], pa.int32())  # the next map has a key of the first
        return pa.MapArray.from_arrays(
            counts, pa.concat_arrays([values, values[:1]]), pa.nulls(len(keys) + 1, pa.int32()), type=arrow_type(type_)
        )

    assert len(fitted(maps(others), type_)[0]) == len(others)
    with pytest.raises(InvalidData, match=r"Column m, row 8: the MAP has the key .* twice"):
        fitted(maps(others[:1] + [one for one in same if one != others[0]] + same), type_, first_row=7)


def test_keys_that_the_columns_type_makes_one_are_refused() -> None:
    keys = pa.array([16777217.0, 16777216.0])
    maps = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, pa.array([1, 2], pa.int32()))
    with pytest.raises(InvalidData, match=r"Column m, row 1: the MAP has the key 16777216\.0 twice"):
        fitted(maps, MapType(key=FloatType(nullable=False), value=IntType()))


def test_what_lies_below_a_row_that_is_null_is_nobodys_key() -> None:
    keys, items, ends = pa.array([1, 1, 2, 2], pa.int32()), pa.array(list("abcd")), pa.array([0, 2, 3, 4], pa.int32())
    maps = pa.MapArray.from_arrays(ends, keys, items, type=arrow_type(MAP), mask=pa.array([True, False, False]))
    assert fitted(maps, MAP) == [None, [(2, "c")], [(2, "d")]]
    # Such rows counted for those behind them: the error told another row.
    type_ = ArrayType(element=VarCharType(nullable=False))
    ends, elements = pa.array([0, 2, 4], pa.int32()), pa.array(["a", "b", "c", None])
    with pytest.raises(InvalidData, match=r"Column m\.element, row 2: NULL"):
        fitted(pa.ListArray.from_arrays(ends, elements, type=arrow_type(type_), mask=pa.array([True, False])), type_)
