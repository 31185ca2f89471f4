"""File indexes: their bytes, and that they never keep a reader from a row it asked for."""

from __future__ import annotations

import contextlib
import datetime as dt
import operator
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidOption
from model.options.file_index import BITMAP, BLOOM, COLUMN_OPTIONS, RANGE
from model.predicate import Op
from model.schema.schema import column, new_schema
from model.schema.types import DataType
from table.format.rows.arrow import arrow_type
from table.index.bitmap import BitmapBuilder, BitmapIndex
from table.index.bloom import BloomBuilder, may_hold
from table.index.container import UnreadableIndex, decode, encode
from table.index.range_bitmap import RangeBitmapBuilder, RangeBitmapIndex
from table.index.values import hashes, key_order, keys, literal

TIMES = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-(2**7), 2**7 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2),
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
    "STRING": st.text("aé\0😀", max_size=4),
    "DATE": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "TIMESTAMP(3)": TIMES.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(6)": TIMES,
    "TIMESTAMP_LTZ(6)": TIMES.map(lambda t: t.replace(tzinfo=dt.UTC)),
}


def settings(kind: str, **given_: Any) -> dict[str, Any]:
    return {option.key: given_.get(option.key.replace("-", "_"), option.default) for option in COLUMN_OPTIONS[kind]}


def typed(spelled: str) -> DataType:
    return column("x", spelled).type


@pytest.mark.parametrize("spelled", [*VALUES, "BYTES"])
@given(data=st.data())
def test_a_bloom_filter_knows_every_value_it_was_given(spelled: str, data: st.DataObject) -> None:
    strategy = VALUES.get(spelled, st.binary(max_size=4))
    rows = data.draw(st.lists(st.none() | strategy, max_size=30))
    type_ = typed(spelled)
    builder = BloomBuilder(type_, settings(BLOOM, items=50))
    builder.add(pa.array(rows[:10], arrow_type(type_)))
    builder.add(pa.array(rows[10:], arrow_type(type_)))
    body = builder.body()
    for value in {v for v in rows if v is not None}:
        asked = literal(type_, value)
        assert asked is not None
        assert may_hold(body, type_, asked)


def test_a_bloom_filter_lets_few_others_through() -> None:
    type_ = typed("BIGINT")
    builder = BloomBuilder(type_, settings(BLOOM, items=1000, fpp=0.01))
    builder.add(pa.array(range(1000), pa.int64()))
    body = builder.body()
    wrong = sum(may_hold(body, type_, pa.array([n], pa.int64())) for n in range(10_000, 12_000))
    assert 0 < wrong < 60


def test_the_sizes_and_hashes_are_paimons() -> None:
    # The bytes of an index on one column with default settings were measured with Java Paimon.
    assert len(encode({"k": {BLOOM: BloomBuilder(typed("INT"), settings(BLOOM)).body()}})) == 599_124
    assert hashes(typed("STRING"), pa.array(["", "a"])).view("u8").tolist() == [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B]
    # Worked by hand from the published mix of 64-bit integers.
    assert hashes(typed("INT"), pa.array([0], pa.int32())).tolist() == [_wang(0)]
    assert hashes(typed("BIGINT"), pa.array([-5], pa.int64())).tolist() == [_wang(-5)]


def _wang(key: int) -> int:
    def wrap(n: int) -> int:
        return int(struct.unpack(">q", struct.pack(">Q", n & (2**64 - 1)))[0])

    key = wrap(~key + (key << 21))
    key ^= key >> 24
    key = wrap(key + (key << 3) + (key << 8))
    key ^= key >> 14
    key = wrap(key + (key << 2) + (key << 4))
    key ^= key >> 28
    return wrap(key + (key << 31))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("spelled", [*VALUES, "BOOLEAN", "DOUBLE"])
@given(data=st.data())
def test_a_bitmap_index_gives_the_rows_of_each_value(version: int, spelled: str, data: st.DataObject) -> None:
    strategy = VALUES | {"BOOLEAN": st.booleans(), "DOUBLE": st.sampled_from([-1.5, 0.0, 2.0, float("inf")])}
    rows = data.draw(st.lists(st.none() | strategy[spelled], max_size=40))
    type_ = typed(spelled)
    builder = BitmapBuilder(type_, settings(BITMAP, version=version, index_block_size=64))
    for at in range(0, len(rows), 15):
        builder.add(pa.array(rows[at : at + 15], arrow_type(type_)))
    index = BitmapIndex.decode(builder.body(), type_)
    assert index.rows == len(rows)
    assert list(index.having([None])) == [at for at, value in enumerate(rows) if value is None]
    body = builder.body()
    for value in {*(v for v in rows if v is not None), data.draw(strategy[spelled])}:
        (key,) = keys(type_, pa.array([value], arrow_type(type_)))
        having = [at for at, other in enumerate(rows) if other == value]
        assert list(index.having([key])) == list(BitmapIndex.decode(body, type_, wanted=[key]).having([key])) == having


@pytest.mark.parametrize("version", [1, 2])
def test_of_a_large_bitmap_index_no_more_than_a_query_needs_is_decoded(version: int) -> None:
    type_, values = typed("INT"), [*range(0, 200_000, 2), None]
    builder = BitmapBuilder(type_, settings(BITMAP, version=version))
    builder.add(pa.array(values, pa.int32()))
    body = builder.body()
    wanted = [struct.pack(">i", value) for value in (-1, 0, 99_998, 99_999, 199_998, 200_000)]
    if version == 1:  # its bitmaps end where the next ones begin, so that all of it is needed
        with pytest.raises(UnreadableIndex, match="more than 50,000 values"):
            BitmapIndex.decode(body, type_, wanted=wanted, most_values=50_000)
        return
    index = BitmapIndex.decode(body, type_, wanted=wanted, most_values=50_000)
    assert len(index.places) < 10_000
    assert list(index.having(wanted)) == [0, 49_999, 99_999]
    assert list(BitmapIndex.decode(body, type_, wanted=[None], most_values=50_000).having([None])) == [100_000]
    with pytest.raises(UnreadableIndex, match="more than 50,000 values"):
        BitmapIndex.decode(body, type_, most_values=50_000)


def index_of_blocks() -> tuple[DataType, list[int], bytes, int]:
    """A bitmap index of version 2 in several blocks: the column's type and values, its bytes, and how many blocks it has."""
    type_, values = typed("INT"), list(range(0, 120, 3))
    builder = BitmapBuilder(type_, settings(BITMAP, version=2, index_block_size=64))
    builder.add(pa.array(values, pa.int32()))
    body = builder.body()
    (blocks,) = struct.unpack_from(">i", body, 10)
    return type_, values, body, blocks


def test_a_block_of_a_bitmap_index_that_begins_otherwise_hides_no_row() -> None:
    """Whatever bit of the list of blocks, or of their size, is another: the values in it are found, or the index is told to be none."""
    type_, values, body, blocks = index_of_blocks()
    assert blocks > 5
    for bit in range(10 * 8, (14 + 8 * blocks + 4) * 8):
        changed = bytearray(body)
        changed[bit // 8] ^= 1 << bit % 8
        for at, value in enumerate(values):
            key = struct.pack(">i", value)
            with contextlib.suppress(UnreadableIndex):
                assert list(BitmapIndex.decode(bytes(changed), type_, wanted=[key]).having([key])) == [at]


def test_a_block_of_a_bitmap_index_with_another_count_hides_no_row() -> None:
    """Whatever bit of a block's count is another, the last block's too: its values are found, or the index is told to be none."""
    type_, values, body, blocks = index_of_blocks()
    start = 14 + 8 * blocks + 4
    told = 0
    for number in range(blocks):
        first, offset = struct.unpack_from(">ii", body, 14 + 8 * number)
        (count,) = struct.unpack_from(">i", body, start + offset)
        assert count > 1
        for bit in range(32):
            changed = bytearray(body)
            changed[start + offset : start + offset + 4] = struct.pack(">I", count ^ 1 << bit)
            for at, value in enumerate(values):
                key = struct.pack(">i", value)
                for wanted in ([key], None):
                    try:
                        assert list(BitmapIndex.decode(bytes(changed), type_, wanted=wanted).having([key])) == [at]
                    except UnreadableIndex:
                        told += 1
                    else:
                        assert wanted is not None
                        assert not first <= value < first + 3 * count  # another block was asked
    assert told


COMPARED: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq, Op.NE: operator.ne, Op.LT: operator.lt, Op.LE: operator.le, Op.GT: operator.gt, Op.GE: operator.ge,
}  # fmt: skip


def compared(value: Any) -> Any:
    """As Java compares it: texts by their bytes."""
    return value.encode() if isinstance(value, str) else value


RANGED = VALUES | {"BOOLEAN": st.booleans(), "DECIMAL(9, 2)": st.decimals(-999, 999, places=2), "SMALLINT": st.integers(-9, 9)}


@pytest.mark.parametrize("chunk", [None, 24])
@pytest.mark.parametrize("spelled", RANGED)
@given(data=st.data())
def test_a_range_bitmap_gives_the_rows_of_each_comparison(chunk: int | None, spelled: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.none() | RANGED[spelled], max_size=40))
    type_ = typed(spelled)
    builder = RangeBitmapBuilder(type_, settings(RANGE, chunk_size=chunk))
    for at in range(0, len(rows), 15):
        builder.add(pa.array(rows[at : at + 15], arrow_type(type_)))
    index = RangeBitmapIndex.decode(builder.body(), type_)
    assert list(index.nulls(negated=False)) == [at for at, value in enumerate(rows) if value is None]
    assert list(index.nulls(negated=True)) == [at for at, value in enumerate(rows) if value is not None]
    asked = [*data.draw(st.lists(RANGED[spelled], max_size=3)), *(value for value in rows[:5] if value is not None)]
    for value in asked:
        (key,) = keys(type_, pa.array([value], arrow_type(type_)))
        for op, holds in COMPARED.items():
            expected = [at for at, other in enumerate(rows) if other is not None and holds(compared(other), compared(value))]
            assert list(index.compared(op, key) or []) == expected, (op, value)
        assert list(index.having([key])) == [at for at, other in enumerate(rows) if other == value]


def test_a_range_bitmap_that_ends_early_is_told() -> None:
    type_ = typed("STRING")
    builder = RangeBitmapBuilder(type_, settings(RANGE, chunk_size=16))
    builder.add(pa.array(["a", "bc", None, "def", "a"]))
    body = builder.body()
    for end in range(len(body)):
        with pytest.raises(UnreadableIndex):
            RangeBitmapIndex.decode(body[:end], type_).compared(Op.GE, b"bd")


@given(data=st.data())
def test_a_range_bitmap_of_strange_bytes_is_told_and_nothing_else(data: st.DataObject) -> None:
    type_ = typed(data.draw(st.sampled_from(["STRING", "BIGINT"])))
    builder = RangeBitmapBuilder(type_, settings(RANGE, chunk_size=16))
    builder.add(pa.array(["a", "bc", None, "def"] if type_.root == "VARCHAR" else [1, 5, None, 7]))
    body = bytearray(builder.body())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(UnreadableIndex):
        RangeBitmapIndex.decode(bytes(body), type_).compared(Op.GE, b"bd" if type_.root == "VARCHAR" else struct.pack(">q", 4))


@pytest.mark.parametrize("version", [1, 2])
@given(data=st.data())
def test_a_bitmap_of_strange_bytes_is_told_and_nothing_else(data: st.DataObject, version: int) -> None:
    """What no bitmap is ended each query that asked for a value, for everybody (500)."""
    type_ = typed("INT")
    builder = BitmapBuilder(type_, settings(BITMAP, version=version))
    builder.add(pa.array([1, 5, None, 5, None], pa.int32()))
    body = bytearray(builder.body())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(UnreadableIndex):
        BitmapIndex.decode(bytes(body), type_).having([struct.pack(">i", 5), None])


def test_a_bitmap_index_without_a_bitmap_is_told() -> None:
    head = struct.pack(">Bii?", 1, 3, 1, False) + struct.pack(">ii", 5, 0)
    for behind in (b"", b"no bitmap"):
        with pytest.raises(UnreadableIndex):
            BitmapIndex.decode(head + behind, typed("INT")).having([struct.pack(">i", 5)])


def test_bitmap_keys_are_in_the_values_order() -> None:
    for spelled, ordered in (("INT", [-(2**31), -1, 0, 7]), ("DOUBLE", [float("-inf"), -1.5, -0.0, 0.0, 3.0, float("inf"), float("nan")])):
        type_ = typed(spelled)
        found = keys(type_, pa.array(ordered, arrow_type(type_)))
        assert sorted(found, key=lambda key: key_order(type_, key)) == found


@given(
    st.dictionaries(st.text("aé\0😀", min_size=1, max_size=5), st.dictionaries(st.sampled_from(["bitmap", "x"]), st.none() | st.binary()))
)
def test_a_container_gives_back_what_it_holds(bodies: dict[str, dict[str, bytes | None]]) -> None:
    assert decode(encode(bodies)) == bodies


def test_broken_containers_are_told_from_good_ones() -> None:
    good = encode({"a": {"bitmap": b"12345678"}})
    for end in range(len(good)):
        with pytest.raises(UnreadableIndex):
            decode(good[:end])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"file-index.bloom-filter.columns": "nothing"}, "there is no column nothing"),
        ({"file-index.bloom-filter.columns": "d"}, "has no bloom-filter index"),
        ({"file-index.bitmap.columns": "b"}, "has no bitmap index"),
        ({"file-index.range-bitmap.columns": "b"}, "has no range-bitmap index"),
        ({"file-index.range-bitmap.columns": "wide"}, "has no range-bitmap index"),
        ({"file-index.bitmap.columns": "m[k]"}, "keys of a MAP"),
        ({"file-index.bloom-filter.id.items": "10"}, "is not in 'file-index.bloom-filter.columns'"),
        ({"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.fpp": "2"}, "must lie between"),
    ],
)
def test_impossible_indexes_are_refused(options: dict[str, str], told: str) -> None:
    columns = [column("id", "INT"), column("d", "DECIMAL(5, 2)"), column("b", "BYTES"), column("wide", "DECIMAL(19, 2)")]
    with pytest.raises(InvalidOption, match=told.replace("(", r"\(")):
        new_schema(columns, options={"bucket": "-1", **options})


@pytest.mark.parametrize(("start", "length"), [(1, None), (0, None), (5, -1)])
def test_bodies_that_lie_over_each_other_are_told_before_they_are_copied(start: int, length: int | None) -> None:
    """A container of 100 kB took 745 MB: each of its kinds was all of it."""
    kinds = 7_000
    head = struct.pack(">qiii", 1493475289347502, 1, 0, 1) + struct.pack(">H", 1) + b"a" + struct.pack(">i", kinds)
    size = len(head) + kinds * 15 + 4
    each = b"".join(struct.pack(">H5sii", 5, b"%05d" % number, start, size - 1 if length is None else length) for number in range(kinds))
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableIndex):
            decode(head + each + struct.pack(">i", 0))
        assert tracemalloc.get_traced_memory()[1] < 10 * size
    finally:
        tracemalloc.stop()
