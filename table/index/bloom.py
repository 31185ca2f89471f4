"""Bloom filters as Paimon lays them out: the number of probes, then the bits, the lowest of a byte first."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from model.schema.types import DataType
from table.index.container import UnreadableIndex
from table.index.values import Hashes, hashes

_MOST_PROBES = 1 << 12
"""A filter that errs once in 10^300 asks a thousand times."""
_STEP = 1 << 16
"""Hashes probed at once, so that memory stays small."""


class BloomBuilder:
    """The filter of one column of one file."""

    def __init__(self, type_: DataType, settings: Mapping[str, Any]) -> None:
        items, fpp = settings["items"], settings["fpp"]
        bits = int(-items * math.log(fpp) / math.log(2) ** 2)
        self._type = type_
        self._bits = bits + 8 - bits % 8  # a multiple of 8 gets 8 more, as in Java
        self._probes = max(1, math.floor(self._bits / items * math.log(2) + 0.5))
        self._bytes = np.zeros(self._bits // 8, dtype=np.uint8)

    def add(self, column: pa.Array) -> None:
        """Note the values of some rows."""
        column_hashes = hashes(self._type, column)
        for start in range(0, len(column_hashes), _STEP):
            at = _positions(column_hashes[start : start + _STEP], self._probes, self._bits)
            np.bitwise_or.at(self._bytes, at >> 3, np.left_shift(1, at & 7).astype(np.uint8))

    def body(self) -> bytes:
        """The index's bytes."""
        return struct.pack(">i", self._probes) + self._bytes.tobytes()


def may_hold(body: bytes, type_: DataType, values: pa.Array) -> bool:
    """Whether a file with this filter may hold one of the values; raises `UnreadableIndex`."""
    return any(bool(bits.any()) for bits in _held(body, hashes(type_, values)))


def holds_all(body: bytes, type_: DataType, values: pa.Array) -> bool:
    """Whether it may hold all of the values but NULL; raises `UnreadableIndex`."""
    return all(bool(bits.all()) for bits in _held(body, hashes(type_, values)))


def _held(body: bytes, value_hashes: Hashes) -> Iterator[np.ndarray[Any, np.dtype[np.bool_]]]:
    """Whether the filter has the bits of each value, some at once."""
    (probes,) = struct.unpack_from(">i", body)
    bits = np.frombuffer(body, dtype=np.uint8, offset=4) if len(body) > 4 else np.empty(0, np.uint8)
    if not 0 < probes <= _MOST_PROBES or not len(bits):
        raise UnreadableIndex(f"a bloom filter of {len(bits)} bytes is asked {probes} times")
    step = max(1, 8 * _STEP // probes)
    for start in range(0, len(value_hashes), step):
        at = _positions(value_hashes[start : start + step], probes, len(bits) * 8)
        hit = (bits[at >> 3] >> (at & 7).astype(np.uint8)) & 1
        yield hit.reshape(-1, probes).all(axis=1)


def _positions(value_hashes: Hashes, probes: int, bits: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The bits of each hash, its probes side by side."""
    low = value_hashes.astype(np.int32)
    high = (value_hashes >> 32).astype(np.int32)
    rounds = np.arange(1, probes + 1, dtype=np.int32)
    combined = low[:, None] + rounds[None, :] * high[:, None]  # in 32 bits, wrapping
    combined = np.where(combined < 0, ~combined, combined)
    return (combined.astype(np.int64) % bits).ravel()
