"""Indexes held against the rows of their file: only what queries ask an index for, in bounded time and memory."""

from __future__ import annotations

import datetime as dt
import struct
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from model.options.file_index import BITMAP, RANGE
from model.schema.schema import Schema, column, new_schema
from table.format.rows.arrow import arrow_type
from table.index.bitmap import BitmapBuilder
from table.index.compared import ComparedIndexes
from table.index.container import UnreadableIndex, encode
from table.index.range_bitmap import RangeBitmapBuilder, RangeBitmapIndex
from tests.table.index.test_file_index import RANGED, settings


def schema_of(spelled: str) -> Schema:
    return new_schema([column("x", spelled)], options={"bucket": "-1"})


@pytest.mark.parametrize("kind", ["bloom-filter", "bitmap", "range-bitmap"])
@pytest.mark.parametrize(
    ("spelled", "rows"),
    [
        ("TIMESTAMP(9)", pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ns"))),
        ("TIMESTAMP_LTZ(7)", pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ns", "UTC"))),
        ("INT", pa.array(["no number"])),
    ],
)
def test_what_no_query_asks_an_index_for_is_no_fault(kind: str, spelled: str, rows: pa.Array) -> None:
    """Whatever keeps an index from being looked at, it is not what is wrong with the file."""
    compared = ComparedIndexes(encode({"x": {kind: bytes(100)}}), schema_of(spelled))
    compared.look(pa.record_batch({"x": rows}))
    assert compared.fault() is None


def fault(spelled: str, bodies: dict[str, bytes | None], *batches: Sequence[Any]) -> str | None:
    compared = ComparedIndexes(encode({"x": bodies}), schema_of(spelled))
    for values in batches:
        compared.look(pa.record_batch({"x": pa.array(values)}))
    return compared.fault()


@pytest.mark.parametrize("version", [1, 2])
def test_bitmaps_that_lie_over_each_other_are_not_unpacked(version: int) -> None:
    """Each of the values is told with the bitmap of all rows: of a hundred thousand values, unpacking that takes hours."""
    rows = list(range(10))
    bitmap = BitMap(rows).serialize()
    keys = [struct.pack(">i", value) for value in rows]
    if version == 1:
        body = struct.pack(">Bii?", 1, len(rows), len(rows), False) + b"".join(key + struct.pack(">i", 0) for key in keys)
    else:
        sizes = [*[len(bitmap)] * len(rows), -(2**31)]
        entries = b"".join(key + struct.pack(">ii", 0, size) for key, size in zip([*keys, struct.pack(">i", 99)], sizes, strict=True))
        block = struct.pack(">i", len(sizes)) + entries
        body = struct.pack(">Bii?", 2, len(rows), len(sizes), False) + struct.pack(">i", 1) + keys[0]
        body += struct.pack(">ii", 0, len(block)) + block
    assert "bitmap index of column x" in (fault("INT", {BITMAP: body + bitmap}, rows) or "sound")


def test_chunks_that_lie_over_each_other_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dictionary of 2 MB took more than an hour: a chunk of less than no values paid for all others."""
    unpacked = []
    values_of = RangeBitmapIndex._values_of

    def counted(self: RangeBitmapIndex, place: tuple[int, ...]) -> Iterator[bytes]:
        unpacked.append(place)
        return values_of(self, place)

    monkeypatch.setattr(RangeBitmapIndex, "_values_of", counted)
    values, heads, chunks = b"".join(struct.pack(">i", value) for value in range(1000)), b"", 50
    for code in range(chunks):
        size = -(2**31) if code == 0 else 1000
        heads += struct.pack(">B", 1) + struct.pack(">i", code) + struct.pack(">iiiii", code, 0, size, len(values), 4)
    places = b"".join(struct.pack(">i", 25 * chunk) for chunk in range(chunks))
    head = struct.pack(">Biii", 1, chunks, len(places), len(heads))
    dictionary = struct.pack(">i", len(head)) + head + places + heads + values
    builder = RangeBitmapBuilder(column("x", "INT").type, settings(RANGE))
    builder.add(pa.array(range(1000), pa.int32()))
    index = RangeBitmapIndex.decode(builder.body(), column("x", "INT").type)
    head = struct.pack(">Biiiii", 1, 1000, 1000, 0, 999, len(dictionary))
    body = struct.pack(">i", len(head)) + head + dictionary + index.bits
    assert "range-bitmap index of column x" in (fault("INT", {RANGE: body}, pa.array(range(1000), pa.int32())) or "sound")
    assert len(unpacked) < 5


def test_slices_that_lie_over_each_other_are_no_index() -> None:
    bitmap = BitMap([0]).serialize()
    slices = 255
    head = struct.pack(">BBii", 1, slices, len(bitmap), 8 * slices) + struct.pack(">ii", 0, len(bitmap)) * slices
    index = RangeBitmapIndex(column("x", "INT").type, 1, 1, b"", struct.pack(">i", len(head)) + head + bitmap + bitmap)
    with pytest.raises(UnreadableIndex, match="over each other"):
        index.present()


def index_of(kind: str, spelled: str, values: Sequence[Any], **given_: Any) -> bytes:
    type_ = schema_of(spelled).field("x").type
    builder = (BitmapBuilder if kind == BITMAP else RangeBitmapBuilder)(type_, settings(kind, **given_))
    builder.add(pa.array(values, arrow_type(type_)))
    return builder.body()


@pytest.mark.parametrize(("kind", "given_"), [(BITMAP, {"version": 1}), (BITMAP, {"version": 2}), (RANGE, {}), (RANGE, {"chunk_size": 24})])
@pytest.mark.parametrize("spelled", ["INT", "STRING", "BOOLEAN"])
@given(data=st.data())
def test_an_index_of_other_values_is_told_and_no_other(kind: str, given_: dict[str, Any], spelled: str, data: st.DataObject) -> None:
    strategy = st.none() | RANGED[spelled]
    rows = data.draw(st.lists(strategy, min_size=1, max_size=40))
    type_ = arrow_type(schema_of(spelled).field("x").type)
    batches = [pa.array(rows[at : at + 15], type_) for at in range(0, len(rows), 15)]
    assert fault(spelled, {kind: index_of(kind, spelled, rows, **given_)}, *batches) is None
    changed = bytearray(index_of(kind, spelled, rows, **given_))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    fault(spelled, {kind: bytes(changed)}, *batches)  # whatever that is, nothing is raised, which would be the data file's fault
    at = data.draw(st.integers(0, len(rows) - 1))
    others = [*rows[:at], data.draw(strategy.filter(lambda value: value != rows[at])), *rows[at + 1 :]]
    for wrong in (others, rows[:-1]):
        told = fault(spelled, {kind: index_of(kind, spelled, wrong, **given_)}, *batches)
        assert told is not None, wrong
        assert f"{kind} index of column x" in told


def test_a_column_of_as_many_values_as_rows_is_compared_in_little_memory() -> None:
    """Each value took 600 bytes, of which Python's are counted here; eight files of ten million rows took 48 GB."""
    count = 200_000
    values = pa.array([(number * 7919) % count for number in range(count)], pa.int64())
    body = index_of(RANGE, "BIGINT", values)
    tracemalloc.start()
    try:
        assert fault("BIGINT", {RANGE: body}, *(values[at : at + 50_000] for at in range(0, count, 50_000))) is None
        assert tracemalloc.get_traced_memory()[1] < 15 << 20
    finally:
        tracemalloc.stop()


def test_a_bitmap_of_many_values_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table.index.compared._MOST_VALUES", 3)
    for version in (1, 2):
        for told, of in (("bitmap", [1, 2, 3]), (None, [1, 2, 3, 4])):
            found = fault("INT", {BITMAP: index_of(BITMAP, "INT", of, version=version)}, pa.array([5] * len(of), pa.int32()))
            assert (found is None) == (told is None), (version, found)
