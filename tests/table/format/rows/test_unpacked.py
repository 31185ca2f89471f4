"""Dictionaries and views are made plain in pieces of bounded size, whatever they stand in."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from table.format.rows.unpacked import plain_pieces, plain_sizes, plain_type

TEXT = "ä" * 500
DICTIONARY = pa.dictionary(pa.int32(), pa.string())


def _named(indices: list[int | None], values: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values, pa.string()))


def _columns(rng: random.Random, rows: int) -> dict[str, pa.Array]:
    """Columns of every kind that may hold dictionaries or views, with NULLs and empty values."""

    def index() -> int | None:
        return rng.choice([None, 0, 1, 2])

    values = ["", TEXT, "b" * 3000]
    named = _named([index() for _ in range(rows)], values)
    lengths = [rng.choice([0, 0, 1, 5]) for _ in range(rows)]
    offsets = pa.array([sum(lengths[:number]) for number in range(rows + 1)], pa.int32())
    inside = _named([index() for _ in range(sum(lengths))], values)
    keys = _named([rng.choice([0, 1, 2]) for _ in range(sum(lengths))], values)
    absent = pa.array([rng.random() < 0.2 for _ in range(rows)])
    views = [(rng.randrange(len(inside) + 1), rng.choice([0, 1, 3])) for _ in range(rows)]
    views = [(start, min(length, len(inside) - start)) for start, length in views]
    starts, sizes = (pa.array([view[number] for view in views], pa.int32()) for number in (0, 1))
    seen = pa.ListViewArray.from_arrays(starts, sizes, inside, mask=absent)
    return {
        "number": pa.array(range(rows), pa.int64()),
        "named": named,
        "struct": pa.StructArray.from_arrays([named, pa.array(range(rows))], ["text", "number"], mask=absent),
        "list": pa.ListArray.from_arrays(offsets, inside, mask=absent),
        "map": pa.MapArray.from_arrays(offsets, keys, inside),
        "fixed": pa.FixedSizeListArray.from_arrays(_named([index() for _ in range(2 * rows)], values), 2),
        "list_view": seen,
        "struct_of_views": pa.StructArray.from_arrays([seen], ["texts"], mask=absent),
        "list_of_views": pa.ListArray.from_arrays(pa.array([0, *[rows] * rows], pa.int32()), seen, mask=absent),
        "map_of_views": pa.MapArray.from_arrays(pa.array(range(rows + 1), pa.int32()), pa.array(range(rows)), seen),
        "fixed_of_views": pa.FixedSizeListArray.from_arrays(seen, 1),
        "large_view": pa.LargeListViewArray.from_arrays(starts.cast(pa.int64()), sizes.cast(pa.int64()), inside, mask=absent),
        "view": pa.array([rng.choice([None, "short", TEXT]) for _ in range(rows)], pa.string_view()),
        "nested": pa.DictionaryArray.from_arrays(
            pa.array([rng.choice([None, 0, 1]) for _ in range(rows)], pa.int8()), pa.array([["x" * 2000], None])
        ),
    }


@pytest.mark.parametrize("seed", range(6))
def test_pieces_hold_the_same_rows_and_no_more_than_their_bound(seed: int) -> None:
    rng = random.Random(seed)
    columns = _columns(rng, rng.choice([1, 7, 200]))
    for name, column in columns.items():
        begin = rng.randrange(len(column))
        batch = pa.RecordBatch.from_arrays([column], [name]).slice(begin, rng.randrange(len(column) - begin + 1))
        pieces = list(plain_pieces(batch, 20_000))
        assert [row for piece in pieces for row in piece.to_pylist()] == batch.to_pylist(), name
        for piece in pieces:
            piece.validate(full=True)
            assert piece.schema.field(0).type == plain_type(column.type)
            if len(pieces) > 1:
                assert piece.num_rows == 1 or plain_sizes(piece.column(0)).sum() <= 20_000, name


def test_a_small_dictionary_named_often_is_unpacked_a_piece_at_a_time() -> None:
    batch = pa.RecordBatch.from_arrays([_named([0] * 10_000, ["x" * 100_000])], ["text"])
    sizes = [piece.nbytes for piece in plain_pieces(batch, 1 << 20)]
    assert sum(sizes) >= 10_000 * 100_000
    assert max(sizes) <= 1 << 20


def test_views_that_overlap_come_in_pieces_too() -> None:
    inside = pa.array(range(100_000), pa.int64())
    starts, lengths = pa.array([0] * 1000, pa.int32()), pa.array([100_000] * 1000, pa.int32())
    batch = pa.RecordBatch.from_arrays([pa.ListViewArray.from_arrays(starts, lengths, inside)], ["numbers"])
    assert [piece.num_rows for piece in plain_pieces(batch, 4 << 20)] == [5] * 200


def test_what_has_no_dictionary_passes_as_it_is() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", None], "c": [[1], None]})
    assert [piece is batch for piece in plain_pieces(batch, 1)] == [True]


def test_an_empty_batch_is_a_piece() -> None:
    batch = pa.RecordBatch.from_arrays([_named([], []), pa.array([], pa.list_(DICTIONARY))], ["a", "b"])
    (piece,) = plain_pieces(batch, 100)
    assert piece.schema.types == [pa.string(), pa.list_(pa.string())]


def test_a_row_of_more_than_a_gigabyte_is_refused() -> None:
    elements = _named([0] * 2_000, ["x" * (1 << 20)])
    batch = pa.RecordBatch.from_arrays([pa.ListArray.from_arrays(pa.array([0, 2_000], pa.int32()), elements)], ["texts"])
    with pytest.raises(pa.ArrowCapacityError, match="a row takes 2,0"):
        list(plain_pieces(batch, 1 << 20))


@pytest.mark.parametrize("index", [2, -1])
def test_an_index_outside_its_dictionary_is_refused(index: int) -> None:
    wrong = pa.DictionaryArray.from_arrays(pa.array([0, index], pa.int32()), pa.array(["a", "b"]), safe=False)
    for column in (wrong, pa.StructArray.from_arrays([wrong], ["text"]), pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), wrong)):
        with pytest.raises(pa.ArrowIndexError, match="outside its dictionary of 2 values"):
            list(plain_pieces(pa.RecordBatch.from_arrays([column], ["a"]), 100))
