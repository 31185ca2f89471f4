"""Arrow data from outside is judged in full before anything looks at it."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from model.errors import InvalidData, UnsupportedType
from tests.workers.damaged import reaching
from workers.validation import validated


@pytest.mark.parametrize("size", [100, 2_000_000_000, -1])
def test_offsets_outside_the_buffers_are_told_with_their_column(size: int) -> None:
    with pytest.raises(InvalidData, match=r"^Column v \(binary\) is damaged: "):
        validated(reaching(size))


def inside(kind: str) -> pa.Array:
    """The same column inside another."""
    hurt = reaching(100).column(0)
    indices = pa.array([0, 1], pa.int8())
    match kind:
        case "list":
            return pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), hurt)
        case "map":
            return pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array(["a", "b"]), hurt)
        case "struct":
            return pa.StructArray.from_arrays([hurt], ["x"])
        case "dictionary":
            return pa.DictionaryArray.from_arrays(indices, hurt, safe=False)
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["list", "map", "struct", "dictionary"])
def test_damage_inside_other_columns_is_found(kind: str) -> None:
    with pytest.raises(InvalidData, match="Column v"):
        validated(pa.RecordBatch.from_arrays([inside(kind)], ["v"]))


DAMAGED = {
    "an index past its dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int8()), pa.array(["a"]), safe=False),
    "text that is not UTF-8": pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    ),
    "a view past its buffer": pa.Array.from_buffers(
        pa.binary_view(), 1, [None, pa.py_buffer(b"\xff\0\0\0abcd\0\0\0\0\0\0\0\0"), pa.py_buffer(b"abcdefgh")]
    ),
    "a decimal of more digits than its type": pa.Array.from_buffers(
        pa.decimal128(2, 0), 1, [None, pa.py_buffer((10**9).to_bytes(16, "little"))]
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_values_that_are_none_are_found(what: str) -> None:
    with pytest.raises(InvalidData, match="Column v"):
        validated(pa.RecordBatch.from_arrays([DAMAGED[what]], ["v"]))


REFUSED = {
    "a union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    "a run-end encoded array": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["x"])),
    "an extension type": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
    "an interval": pa.array([pa.MonthDayNano([1, 2, 3])]),
    "a duration": pa.array([1], pa.duration("s")),
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_types_no_column_has_are_refused_by_name(what: str, nested: bool) -> None:
    column = pa.StructArray.from_arrays([REFUSED[what]], ["x"]) if nested else REFUSED[what]
    with pytest.raises(UnsupportedType, match=r"^Column v: the .*type"):
        validated(pa.RecordBatch.from_arrays([column], ["v"]))


FINE = [
    pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.null(), pa.decimal128(10, 2), pa.decimal256(50, 2), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.binary(4), pa.binary_view(), pa.date32(), pa.date64(), pa.time32("ms"),
    pa.time64("ns"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.list_(pa.string()), pa.large_list(pa.int8()),
    pa.list_(pa.int8(), 2), pa.list_view(pa.string()), pa.map_(pa.string(), pa.list_(pa.int8())), pa.struct([("a", pa.binary())]),
    pa.dictionary(pa.int8(), pa.string()),
]  # fmt: skip


@pytest.mark.parametrize("type_", FINE, ids=str)
def test_types_columns_can_be_made_of_pass_with_and_without_values(type_: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(3, type_)], ["v"])
    assert validated(batch) is batch
    assert validated(batch.slice(0, 0)).num_rows == 0


@pytest.mark.parametrize("scale", [-1, -(2**31), 11, 2**31 - 1])
def test_decimals_whose_scale_no_column_has_are_refused_unread(scale: int) -> None:
    batch = pa.record_batch([pa.nulls(1, pa.decimal128(10, scale))], ["n"])
    with pytest.raises(UnsupportedType, match=r"Column n: decimal128.* a decimal's scale lies between 0 and its precision"):
        validated(batch)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("length", [-1, -(2**63), 2**62])
def test_a_part_whose_length_is_none_ends_nothing(number: int, length: int) -> None:
    """Arrow believes the lengths in a message, and ends the process where it cuts a part of a ROW that has fewer than none."""
    batch = pa.record_batch({"v": pa.array([{"x": [1]}, {"x": [2]}, {"x": [3]}])})
    sent, node = bytearray(batch.serialize()), struct.pack("<qq", 3, 0)
    at = [place for place in range(len(sent)) if sent.startswith(node, place)]
    assert len(at) == 3  # of the ROW, of the list in it, of that list's values
    sent[at[number] : at[number] + 8] = struct.pack("<q", length)
    with pytest.raises((InvalidData, OSError), match=r"Column v|did not match"):  # Arrow itself compares the outermost with the batch's
        validated(pa.ipc.read_record_batch(pa.py_buffer(bytes(sent)), batch.schema))
