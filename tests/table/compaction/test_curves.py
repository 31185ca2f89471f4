"""Sort keys through several columns: bits in turns, and a curve without jumps."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table.compaction.curves import hilbert_keys, zorder_keys


def by_hand(rows: list[tuple[int, int]]) -> list[bytes]:
    keys = []
    for row in rows:
        words = [format((value + (1 << 63)) & ((1 << 64) - 1), "064b") for value in row]
        keys.append(int("".join(a + b for a, b in zip(*words, strict=True)), 2).to_bytes(16, "big"))
    return keys


NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
def test_zorder_interleaves_the_bits(rows: list[tuple[int, int]]) -> None:
    columns = [pa.array([row[at] for row in rows], pa.int64()) for at in range(2)]
    assert zorder_keys(columns).to_pylist() == by_hand(rows)


@given(st.lists(st.none() | st.text(max_size=20), max_size=30), st.integers(0, 3), st.integers(1, 12))
def test_a_text_gives_its_first_bytes(texts: list[str | None], skipped: int, size: int) -> None:
    column = pa.array(texts, pa.string()).slice(skipped)
    heads = [(text or "").encode()[:size].ljust(size, b"\0") for text in texts[skipped:]]
    assert zorder_keys([column], text_bytes=size).to_pylist() == heads


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
def test_two_columns_go_the_short_way_to_the_same_keys(rows: list[tuple[int, int]]) -> None:
    columns = [pa.array([row[at] for row in rows], pa.int64()) for at in range(2)]
    third = pa.array([None] * len(rows), pa.string())
    longer = zorder_keys([*columns, third], text_bytes=1).to_pylist()  # 8 bits of nothing, between the first of the others
    bits = [format(int.from_bytes(key, "big"), "0136b") for key in longer]
    without = ["".join(bit for at, bit in enumerate(text) if at >= 24 or at % 3 < 2) for text in bits]
    assert [int(text, 2).to_bytes(16, "big") for text in without] == zorder_keys(columns).to_pylist()


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.int8(), [-128, -1, 0, 1, 127]),
        (pa.int32(), [-(2**31), -1, 0, 2**31 - 1]),
        (pa.float64(), [float("-inf"), -1.5, -1e-300, 0.0, 1e-300, 2.5, float("inf")]),
        (pa.float32(), [-2.5, 0.5, 3.25]),
        (pa.bool_(), [False, True]),
        (pa.date32(), [dt.date(1900, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 1, 1)]),
        (pa.timestamp("us"), [dt.datetime(1900, 1, 1), dt.datetime(2026, 1, 1, 1)]),
        (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
        (pa.string(), ["", "a", "ab", "b", "中"]),
        (pa.binary(), [b"", b"\x01", b"\xff"]),
    ],
)
def test_one_column_sorts_as_itself_and_null_first(type_: pa.DataType, values: list[Any]) -> None:
    column = pa.array([None, *values], type_)
    keys = zorder_keys([column]).to_pylist()
    assert keys == sorted(keys)
    assert len(set(keys[1:])) == len(values)
    curve = hilbert_keys([column]).to_pylist()
    assert curve == sorted(curve)


def test_longer_texts_count_where_asked() -> None:
    column = pa.array(["same-head-1", "same-head-2"])
    assert len(set(zorder_keys([column]).to_pylist())) == 1
    assert len(set(zorder_keys([column], text_bytes=16).to_pylist())) == 2


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_hilbert_curve_never_jumps(dimensions: int) -> None:
    """Through an aligned cube of points, two that follow each other are neighbours."""
    side = 8
    points: list[list[int]] = [[]]
    for _ in range(dimensions):
        points = [[*point, value] for point in points for value in range(side)]
    keys = hilbert_keys([pa.array([point[at] for point in points], pa.int64()) for at in range(dimensions)]).to_pylist()
    assert len(set(keys)) == len(points)
    ordered = [point for _, point in sorted(zip(keys, points, strict=True))]
    assert all(sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 1 for one, other in pairwise(ordered))
