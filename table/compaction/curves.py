"""Sort keys that keep rows near each other in several columns at once: z-order and the Hilbert curve (`paimon-append.md` §7.4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bits = npt.NDArray[np.uint8]
_SIGN = np.uint64(1 << 63)
APART = ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333), (1, 0x5555555555555555))
"""Shifts and masks that, one after another, put the 32 lower bits of a number at every other place of 64."""


def zorder_keys(columns: Sequence[pa.Array], *, text_bytes: int = 8) -> pa.Array:
    """The z-order key of each row: the columns' bits in turns, most significant first; a text gives its first bytes."""
    if any(_is_text(column.type) for column in columns):
        return _binary(_in_turns([_bits(column, text_bytes) for column in columns]))
    return _binary(_numbers_in_turns([_ordered_number(column) for column in columns]))


def hilbert_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """The place of each row on a Hilbert curve through all columns, 64 bits each (Skilling's transform)."""
    axes = [_ordered_number(column).copy() for column in columns]
    _to_curve(axes)
    return _binary(_numbers_in_turns(axes))


def _to_curve(axes: list[npt.NDArray[np.uint64]]) -> None:
    """Coordinates into the transposed Hilbert index, in place."""
    first = axes[0]
    for position in range(63, 0, -1):
        bit = np.uint64(1 << position)
        below = np.uint64((1 << position) - 1)
        for axis in axes:
            inverted = (axis & bit) != 0
            swap = np.where(inverted, np.uint64(0), (first ^ axis) & below)
            first ^= np.where(inverted, below, swap)
            if axis is not first:
                axis ^= swap
    for before, axis in pairwise(axes):
        axis ^= before
    turned = np.zeros_like(first)
    for position in range(63, 0, -1):
        bit = np.uint64(1 << position)
        turned ^= np.where((axes[-1] & bit) != 0, bit - np.uint64(1), np.uint64(0))
    for axis in axes:
        axis ^= turned


def _bits(column: pa.Array, text_bytes: int) -> Bits:
    if _is_text(column.type):
        return np.unpackbits(_head(column, text_bytes), axis=1)
    return _unpacked(_ordered_number(column))


def _is_text(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(type_) or t.is_large_string(type_) or t.is_binary(type_) or t.is_large_binary(type_))


def _head(column: pa.Array, size: int) -> Bits:
    """The first bytes of each text, padded with zeros; NULL is zeros."""
    texts = pc.fill_null(column.cast(pa.large_binary()), b"")
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None or not data.size:
        return np.zeros((len(texts), size), dtype=np.uint8)
    ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    at = ends[:-1, np.newaxis] + np.arange(size)
    letters = np.frombuffer(data, dtype=np.uint8)
    return np.where(at < ends[1:, np.newaxis], letters[np.minimum(at, len(letters) - 1)], np.uint8(0))


def _ordered_number(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Each value as a number without sign whose order is the column's; NULL is zero."""
    if _is_text(column.type):
        return _head(column, 8).view(">u8").reshape(-1).astype(np.uint64)
    valid = ~np.asarray(column.is_null())
    if pa.types.is_boolean(column.type):
        numbers = np.asarray(pc.fill_null(column, False).cast(pa.int64())).view(np.uint64) ^ _SIGN
    elif pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        raw = np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0)).view(np.uint64)
        numbers = np.where(raw & _SIGN != 0, ~raw, raw | _SIGN)
    else:
        plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) or pa.types.is_time32(column.type) else column
        numbers = np.asarray(pc.fill_null(plain.cast(pa.int64()), 0)).view(np.uint64) ^ _SIGN
    return np.where(valid, numbers, np.uint64(0)).astype(np.uint64)


def _unpacked(numbers: npt.NDArray[np.uint64]) -> Bits:
    return np.unpackbits(numbers.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1)


def _numbers_in_turns(numbers: Sequence[npt.NDArray[np.uint64]]) -> Bits:
    """Bits of the numbers round-robin; of two, as most keys are, several times as fast as by turning each bit into a byte."""
    if len(numbers) != 2:
        return _in_turns([_unpacked(column) for column in numbers])
    a, b = numbers
    low = np.uint64(0xFFFFFFFF)
    words = [(_apart(x) << np.uint64(1)) | _apart(y) for x, y in ((a >> np.uint64(32), b >> np.uint64(32)), (a & low, b & low))]
    return np.stack(words, axis=1).astype(">u8").view(np.uint8).reshape(-1, 16)


def _apart(half: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The 32 lower bits of each number at every other place of 64."""
    for shift, mask in APART:
        half = (half | (half << np.uint64(shift))) & np.uint64(mask)
    return half


def _in_turns(columns: Sequence[Bits]) -> Bits:
    """Bits of the columns round-robin, most significant first; a longer column goes on alone."""
    places = [(bit, at) for at, bits in enumerate(columns) for bit in range(bits.shape[1])]
    order = sorted(range(len(places)), key=places.__getitem__)
    mixed = np.packbits(np.concatenate(columns, axis=1)[:, order], axis=1)
    assert mixed.dtype == np.uint8
    return mixed


def _binary(keys: Bits) -> pa.Array:
    rows, width = keys.shape
    data = pa.py_buffer(np.ascontiguousarray(keys).tobytes())
    fixed = pa.Array.from_buffers(pa.binary(width), rows, [None, data])
    return fixed.cast(pa.binary())
