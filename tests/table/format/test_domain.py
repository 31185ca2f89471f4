"""Bits that are no value of their type are told, wherever they stand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from table.format.rows.domain import value_fault


def _of(type_: pa.DataType, number: int) -> pa.Array:
    width = type_.bit_width // 8
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(number.to_bytes(width, "little", signed=True))])


def _in_all(array: pa.Array) -> list[pa.Array]:
    offsets = pa.array([0, 1], pa.int32())
    return [
        array,
        pa.ListArray.from_arrays(offsets, array),
        pa.StructArray.from_arrays([array], ["a"]),
        pa.MapArray.from_arrays(offsets, pa.array(["k"]), array),
        pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([array], ["a"])),
    ]


_BAD_TEXT = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xc3(")])
NONE = {
    "a time of a day": _of(pa.time32("ms"), 86_400_000),
    "a time before it": _of(pa.time32("ms"), -1),
    "a day without a text": _of(pa.date32(), 11_248_738),
    "a day before all": _of(pa.date32(), -(2**31)),
    "milliseconds": _of(pa.timestamp("ms"), 2**62),
    "microseconds with a zone": _of(pa.timestamp("us", "UTC"), -(2**63)),
    "a decimal of more digits": _of(pa.decimal128(5, 2), 100_000),
    "a text that is none": _BAD_TEXT,
}
VALUES = {
    "the last of a day": _of(pa.time32("ms"), 86_399_999),
    "the last day": _of(pa.date32(), 11_248_737),
    "the first day": _of(pa.date32(), -12_687_428),
    "a year beyond 9999": _of(pa.timestamp("ms"), 300_000_000_000_000),
    "the last nanosecond": _of(pa.timestamp("ns"), 2**63 - 1),
    "all digits": _of(pa.decimal128(5, 2), -99_999),
    "nothing": pa.nulls(3, pa.date32()),
    "no rows": pa.array([], pa.timestamp("us")),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_value_is_told(name: str) -> None:
    for array in _in_all(NONE[name]):
        assert value_fault(array), array.type


@pytest.mark.parametrize("name", VALUES)
def test_what_is_one_is_not(name: str) -> None:
    array = VALUES[name]
    for one in _in_all(array) if len(array) == 1 else [array]:
        assert value_fault(one) is None, one.type


def test_bits_under_a_null_are_no_value() -> None:
    hidden = pa.Array.from_buffers(pa.date32(), 1, [pa.py_buffer(b"\0"), pa.py_buffer((2**31 - 1).to_bytes(4, "little"))])
    for array in (hidden, pa.StructArray.from_arrays([_of(pa.date32(), 2**31 - 1)], ["a"], mask=pa.array([True]))):
        assert value_fault(array) is None
