"""Bitmap indexes: for each value the rows that have it, as roaring bitmaps; both versions of Paimon's layout."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from model.schema.types import DataType
from table.index.container import UnreadableIndex
from table.index.rows_by_value import RowsByValue
from table.index.values import key_order

_TEXTS = frozenset({"CHAR", "VARCHAR"})
_WIDTH = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4, "TIME": 4, "TIMESTAMP": 8}


class BitmapBuilder:
    """The index of one column of one file."""

    def __init__(self, type_: DataType, settings: Mapping[str, Any]) -> None:
        self._type = type_
        self._version: int = settings["version"]
        self._block_bytes: int = settings["index-block-size"]
        self._seen = RowsByValue(type_)

    def add(self, column: pa.Array) -> None:
        """Note the values of the rows that follow."""
        self._seen.add(column)

    def body(self) -> bytes:
        """The index's bytes."""
        bitmaps = bytearray()
        seen = self._seen
        nulls = _placed(seen.nulls, bitmaps)
        entries = [(key, *_placed(seen.rows[key], bitmaps)) for key in seen.ordered()]
        head = struct.pack(">Bii?", self._version, seen.count, len(entries), bool(seen.nulls))
        if self._version == 1:
            head += struct.pack(">i", nulls[0]) if seen.nulls else b""
            return head + b"".join(self._shown(key) + struct.pack(">i", offset) for key, offset, _ in entries) + bytes(bitmaps)
        head += struct.pack(">ii", *nulls) if seen.nulls else b""
        return head + self._blocks(entries) + bytes(bitmaps)

    def _shown(self, key: bytes) -> bytes:
        return struct.pack(">i", len(key)) + key if self._type.root in _TEXTS else key

    def _blocks(self, entries: Sequence[tuple[bytes, int, int]]) -> bytes:
        """The values in blocks of bounded size, after a list of each block's first value and place."""
        blocks: list[tuple[bytes, list[bytes]]] = []
        size = 0
        for key, offset, length in entries:
            entry = self._shown(key) + struct.pack(">ii", offset, length)
            if not blocks or size + len(entry) > self._block_bytes:
                blocks.append((self._shown(key), []))
                size = 4
            blocks[-1][1].append(entry)
            size += len(entry)
        encoded = [struct.pack(">i", len(values)) + b"".join(values) for _, values in blocks]
        index, at = b"", 0
        for (first, _), block in zip(blocks, encoded, strict=True):
            index += first + struct.pack(">i", at)
            at += len(block)
        return struct.pack(">i", len(blocks)) + index + struct.pack(">i", at) + b"".join(encoded)


def _placed(rows: BitMap, bitmaps: bytearray) -> tuple[int, int]:
    """Offset and length of a bitmap put behind the others; a single row is its negative offset alone."""
    if len(rows) == 1:
        return -1 - rows[0], -1
    if not rows:
        return 0, 0
    rows.run_optimize()
    data = rows.serialize()
    bitmaps += data
    return len(bitmaps) - len(data), len(data)


@dataclass(frozen=True, slots=True)
class BitmapIndex:
    """A decoded index: where the rows of each value are, or of those that were wanted."""

    rows: int
    places: Mapping[bytes | None, tuple[int, int | None]]
    """Offset and length in ``bitmaps``; by None the NULLs. A negative offset is one row; no length means up to the next one."""
    bitmaps: bytes

    @classmethod
    def decode(
        cls, body: bytes, type_: DataType, *, wanted: Collection[bytes | None] | None = None, most_values: int | None = None
    ) -> BitmapIndex:
        """Read either version, as far as the wanted values need it; raises `UnreadableIndex`, also where that is more values."""
        try:
            return _decode(body, type_, wanted, most_values)
        except (struct.error, IndexError, ValueError) as problem:
            raise UnreadableIndex("the bitmap index ends early") from problem

    def lie_apart(self) -> bool:
        """Whether no bitmap lies over another: else unpacking all of them would take the square of their bytes."""
        left = len(self.bitmaps)
        for offset, length in self.places.values():
            if offset >= 0:
                length = max(0, len(self.bitmaps) - offset) if length is None else length
                left -= length
                if length < 0 or left < 0:
                    return False
        return True

    def having(self, wanted: Sequence[bytes | None]) -> BitMap:
        """The rows with one of the values; None asks for NULLs. Raises `UnreadableIndex`."""
        try:
            return self._having(wanted)
        except (IndexError, ValueError, OverflowError) as problem:  # as pyroaring has it of bytes that are no bitmap
            raise UnreadableIndex("the bitmap index holds what is no bitmap") from problem

    def _having(self, wanted: Sequence[bytes | None]) -> BitMap:
        rows = BitMap()
        for key in wanted:
            place = self.places.get(key)
            if place is None:
                continue
            offset, length = place
            if offset < 0:
                rows.add(-1 - offset)
            else:
                rows |= BitMap.deserialize(self.bitmaps[offset : None if length is None else offset + length])
        return rows


def _decode(body: bytes, type_: DataType, wanted: Collection[bytes | None] | None, most_values: int | None) -> BitmapIndex:
    version, rows, count, has_nulls = struct.unpack_from(">Bii?", body)
    most = len(body) if most_values is None else most_values
    at = 10
    places: dict[bytes | None, tuple[int, int | None]] = {}
    if version == 1:
        if has_nulls:
            places[None] = (struct.unpack_from(">i", body, at)[0], None)
            at += 4
        for number in range(count):
            _require_at_most(most, number)
            key, at = _key(body, at, type_)
            places[key] = (struct.unpack_from(">i", body, at)[0], None)
            at += 4
        return BitmapIndex(rows, _with_lengths(places), body[at:])
    if version != 2:
        raise UnreadableIndex(f"a bitmap index of version {version}")
    if has_nulls:
        places[None] = struct.unpack_from(">ii", body, at)
        at += 8
    (block_count,) = struct.unpack_from(">i", body, at)
    at += 4
    blocks: list[tuple[bytes, int]] = []
    for number in range(block_count):
        _require_at_most(most, number)
        first, at = _key(body, at, type_)
        blocks.append((first, struct.unpack_from(">i", body, at)[0]))
        at += 4
    (size,) = struct.unpack_from(">i", body, at)
    start = at + 4
    spans = list(pairwise((*(start + offset for _, offset in blocks), start + size)))
    if any(begin < start for begin, _ in spans) or (count and not spans):
        raise UnreadableIndex("the bitmap index does not list its blocks")
    if wanted is not None:
        spans = _wanted_spans(body, [first for first, _ in blocks], spans, type_, wanted)
    for number, (value, place) in enumerate(_entries(body, spans, type_)):
        _require_at_most(most, number)
        places[value] = place
    return BitmapIndex(rows, places, body[start + size :])


def _require_at_most(values: int, number: int) -> None:
    if number >= values:
        raise UnreadableIndex(f"a bitmap index of more than {values:,} values")


def _wanted_spans(
    body: bytes, firsts: Sequence[bytes], spans: Sequence[tuple[int, int]], type_: DataType, wanted: Collection[bytes | None]
) -> list[tuple[int, int]]:
    """Begin and end of the blocks that may have wanted values, each told by its first value; of all where these do not ascend.

    The list has to agree with each block that is read and the one behind it: a value looked for in another's place is none.
    """
    ordered = [key_order(type_, first) for first in firsts]
    if any(other <= one for one, other in pairwise(ordered)):  # type: ignore[operator] # the values of a column have one kind
        return list(spans)
    near = {bisect_right(ordered, key_order(type_, key)) - 1 for key in wanted if key is not None}
    for number in {number for at in near for number in (at, at + 1) if 0 <= number < len(spans)}:
        if next(_entries(body, [spans[number]], type_), (None,))[0] != firsts[number]:
            raise UnreadableIndex("the bitmap index lists a block that begins otherwise")
    return [spans[number] for number in sorted(near) if number >= 0]


def _entries(body: bytes, spans: Sequence[tuple[int, int]], type_: DataType) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """What the blocks hold that begin and end there; raises `UnreadableIndex` behind one that ends elsewhere: it would hide rows."""
    for at, end in spans:
        (count,) = struct.unpack_from(">i", body, at)
        at += 4
        for _ in range(count):
            key, at = _key(body, at, type_)
            offset, length = struct.unpack_from(">ii", body, at)
            yield key, (offset, length)
            at += 8
        if at != end:
            raise UnreadableIndex("a block of the bitmap index ends elsewhere")


def _with_lengths(places: Mapping[bytes | None, tuple[int, int | None]]) -> dict[bytes | None, tuple[int, int | None]]:
    """Version 1 keeps offsets alone: a bitmap ends where the next begins."""
    starts = sorted(offset for offset, _ in places.values() if offset >= 0)
    ends: dict[int, int | None] = dict(zip_longest(starts, starts[1:]))
    ends = {start: None if end is None else end - start for start, end in ends.items()}
    return {key: (offset, ends.get(offset)) for key, (offset, _) in places.items()}


def _key(body: bytes, at: int, type_: DataType) -> tuple[bytes, int]:
    length = _WIDTH.get(type_.root)
    if length is None:
        (length,) = struct.unpack_from(">i", body, at)
        at += 4
    if at + length > len(body):
        raise UnreadableIndex("the bitmap index ends early")
    return body[at : at + length], at + length
