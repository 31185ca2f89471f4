"""Range-bitmap indexes: a sorted dictionary of the values, and each row's place in it as bit-sliced roaring bitmaps."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from model.predicate import Op
from model.schema.types import DataType
from table.index.container import UnreadableIndex
from table.index.rows_by_value import RowsByValue
from table.index.values import ascending_keys, key_order

T = TypeVar("T")
_Head = tuple[bytes, int, tuple[int, ...]]
"""Of a chunk its first value, that one's code, and where the others lie."""
_TEXTS = frozenset({"CHAR", "VARCHAR"})
_WIDTH = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "FLOAT": 4}
_UNCHUNKED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT"})
"""Types whose few values need no chunks: each is a chunk of its own, as Paimon has it."""
_VERSION = 1
_GATHERED = 1 << 16
"""So many values are Python's at a time: each takes ten times its bytes."""
_EMPTY_SLICES = 64
"""Slices of a column without values in Paimon's layout."""


class RangeBitmapBuilder:
    """The index of one column of one file."""

    def __init__(self, type_: DataType, settings: Mapping[str, Any]) -> None:
        self._type = type_
        self._chunk_bytes: int = settings["chunk-size"] if settings["chunk-size"] is not None else _default_chunk(type_)
        self._seen = RowsByValue(type_)

    def add(self, column: pa.Array) -> None:
        """Note the values of the rows that follow."""
        self._seen.add(column)

    def body(self) -> bytes:
        """The index's bytes."""
        ordered = self._seen.ordered()
        encoded = [_encoded(self._type, key) for key in ordered]
        dictionary = self._dictionary(encoded)
        head = struct.pack(">Bii", _VERSION, self._seen.count, len(ordered))
        head += (encoded[0] + encoded[-1] if encoded else b"") + struct.pack(">i", len(dictionary))
        return struct.pack(">i", len(head)) + head + dictionary + _slices([self._seen.rows[key] for key in ordered])

    def _dictionary(self, encoded: Sequence[bytes]) -> bytes:
        chunks = self._chunks(encoded)
        places, heads, bodies = b"", b"", b""
        for code, values in chunks:
            texts = self._type.root in _TEXTS
            offsets = _offsets(values[1:]) if texts else b""
            rest = b"".join(values[1:])
            sizes = (len(offsets), len(rest)) if texts else (len(rest), len(values[0]))
            places += struct.pack(">i", len(heads))
            heads += struct.pack(">B", _VERSION) + values[0] + struct.pack(">iiiii", code, len(bodies), len(values) - 1, *sizes)
            bodies += offsets + rest
        head = struct.pack(">Biii", _VERSION, len(chunks), len(places), len(heads))
        return struct.pack(">i", len(head)) + head + places + heads + bodies

    def _chunks(self, encoded: Sequence[bytes]) -> list[tuple[int, list[bytes]]]:
        """The code of each chunk's first value, and its values; what follows the first is bounded."""
        texts = self._type.root in _TEXTS
        chunks: list[tuple[int, list[bytes]]] = []
        left = 0
        for code, value in enumerate(encoded):
            full = len(value) > left or (texts and 4 * len(chunks[-1][1]) > self._chunk_bytes) if chunks else True
            if full:
                chunks.append((code, [value]))
                left = self._chunk_bytes
            else:
                chunks[-1][1].append(value)
                left -= len(value)
        return chunks


def _default_chunk(type_: DataType) -> int:
    return 0 if type_.root in _UNCHUNKED else 16 << 10


def _encoded(type_: DataType, key: bytes) -> bytes:
    return struct.pack(">i", len(key)) + key if type_.root in _TEXTS else key


def _offsets(values: Sequence[bytes]) -> bytes:
    at, offsets = 0, b""
    for value in values:
        offsets += struct.pack(">i", at)
        at += len(value)
    return offsets


def _slices(rows: Sequence[BitMap]) -> bytes:
    """The rows with a value, and for each bit of the values' codes the rows that have it."""
    slices = [BitMap() for _ in range(max((len(rows) - 1).bit_length(), 1) if rows else _EMPTY_SLICES)]
    for code, of_value in enumerate(rows):
        for bit in range(len(slices)):
            if code >> bit & 1:
                slices[bit] |= of_value
    present = _serialized(reduce(BitMap.__ior__, rows, BitMap()))
    bodies = [_serialized(having) for having in slices]
    at, index = 0, b""
    for body in bodies:
        index += struct.pack(">ii", at, len(body))
        at += len(body)
    head = struct.pack(">BBii", _VERSION, len(slices), len(present), len(index)) + index
    return struct.pack(">i", len(head)) + head + present + b"".join(bodies)


def _serialized(rows: BitMap) -> bytes:
    rows = rows.copy()
    rows.run_optimize()
    return bytes(rows.serialize())


@dataclass(frozen=True, slots=True)
class RangeBitmapIndex:
    """An index that is asked; what it needs of its bytes is decoded then."""

    type_: DataType
    rows: int
    values: int
    dictionary: bytes
    bits: bytes

    @classmethod
    def decode(cls, body: bytes, type_: DataType) -> RangeBitmapIndex:
        """Read its head; raises `UnreadableIndex`."""

        def read() -> RangeBitmapIndex:
            head, at = _part(body, 0)
            version, rows, values = struct.unpack_from(">Bii", head)
            if version != _VERSION:
                raise UnreadableIndex(f"a range-bitmap index of version {version}")
            (length,) = struct.unpack_from(">i", head, len(head) - 4)
            if min(rows, values, length) < 0 or at + length > len(body):
                raise UnreadableIndex("the range-bitmap index ends early")
            return cls(type_, rows, values, body[at : at + length], body[at + length :])

        return _readable(read)

    def having(self, keys: Sequence[bytes]) -> BitMap:
        """The rows with one of the values."""
        return _readable(lambda: reduce(BitMap.__or__, (self._equal(key) for key in keys), BitMap()))

    def compared(self, op: Op, key: bytes) -> BitMap | None:
        """The rows of which a comparison with a value holds; None for what is no comparison of order."""
        tests: Mapping[Op, Callable[[], BitMap]] = {
            Op.EQ: lambda: self._equal(key),
            Op.NE: lambda: self.present() - self._equal(key),
            Op.GE: lambda: self._from(self._below(key)[0]),
            Op.LT: lambda: self.present() - self._from(self._below(key)[0]),
            Op.GT: lambda: self._from(sum(self._below(key))),
            Op.LE: lambda: self.present() - self._from(sum(self._below(key))),
        }
        test = tests.get(op)
        return None if test is None else _readable(test)

    def nulls(self, *, negated: bool) -> BitMap:
        """The rows without a value, or with one."""
        return self.present() if negated else BitMap(range(self.rows)) - self.present()

    def ordered(self) -> pa.Array | None:
        """All values as `values.ascending` has them, each at its code; None where they do not ascend, or chunks lie over each other.

        They take little more than the index. Raises `UnreadableIndex`.
        """
        return _readable(self._ordered)

    def _ordered(self) -> pa.Array | None:
        gathered: list[bytes] = []
        parts: list[pa.Array] = []
        count, left = 0, len(self.dictionary)
        for first, code, place in self._each_head():
            _, size, *lengths = place
            length = lengths[1 if self.type_.root in _TEXTS else 0]
            left -= len(first) + length
            if code != count or min(size, length, left) < 0:
                return None
            for key in chain((first,), self._values_of(place)):
                gathered.append(key)
                if len(gathered) == _GATHERED:
                    parts.append(ascending_keys(self.type_, gathered))
                    gathered = []
            count += 1 + size
        parts += [ascending_keys(self.type_, gathered)] if gathered else []
        if count != self.values:
            return None
        values = pa.concat_arrays(parts) if parts else pa.nulls(0)
        rises = len(values) < 2 or pc.all(pc.less(values[:-1], values[1:])).as_py()
        return values if rises else None

    def slices(self) -> tuple[BitMap, list[BitMap]]:
        """The rows with a value, and for each bit of a value's code, the lowest first, the rows that have it; raises `UnreadableIndex`."""
        return _readable(self._sliced) if self.values else (BitMap(), [])

    def present(self) -> BitMap:
        """The rows with a value."""
        return self.slices()[0]

    def _equal(self, key: bytes) -> BitMap:
        code, known = self._below(key) if self.values else (0, False)
        if not known:
            return BitMap()
        rows, slices = self._sliced()
        for bit, having in enumerate(slices):
            rows = rows & having if code >> bit & 1 else rows - having
        return rows

    def _from(self, code: int) -> BitMap:
        """The rows whose code is this one or a later one."""
        if code <= 0:
            return self.present()
        if code >= self.values:
            return BitMap()
        rows, slices = self._sliced()
        above = BitMap()
        equal = rows
        for bit in range(len(slices) - 1, -1, -1):
            if code >> bit & 1:
                equal = equal & slices[bit]
            else:
                above = above | (equal & slices[bit])
                equal = equal - slices[bit]
        return above | equal

    def _below(self, key: bytes) -> tuple[int, bool]:
        """How many values are smaller, and whether this one is there."""
        if not self.values:
            return 0, False
        wanted = key_order(self.type_, key)
        heads = self._heads()
        at = bisect_right(heads, wanted, key=lambda head: key_order(self.type_, head[0])) - 1
        if at < 0:
            return 0, False
        first, code, place = heads[at]
        if key_order(self.type_, first) == wanted:
            return code, True
        ordered = [key_order(self.type_, value) for value in self._values_of(place)]
        inner = bisect_left(ordered, wanted)
        return code + 1 + inner, inner < len(ordered) and ordered[inner] == wanted

    def _heads(self) -> list[_Head]:
        return list(self._each_head())

    def _each_head(self) -> Iterator[_Head]:
        head, at = _part(self.dictionary, 0)
        _, count, places, length = struct.unpack_from(">Biii", head)
        chunks = self.dictionary[at + places : at + places + length]
        position = 0
        for _ in range(count):
            key, after = self._key(chunks, position + 1)
            code, offset, size, first, second = struct.unpack_from(">iiiii", chunks, after)
            yield key, code, (at + places + length + offset, size, first, second)
            position = after + 20

    def _values_of(self, place: tuple[int, ...]) -> Iterator[bytes]:
        start, size, first, second = place
        texts = self.type_.root in _TEXTS
        at = start + (first if texts else 0)
        end = at + (second if texts else first)
        for _ in range(size):
            key, at = self._key(self.dictionary, at)
            yield key
        if at > end:
            raise UnreadableIndex("a chunk of the range-bitmap index ends early")

    def _key(self, data: bytes, at: int) -> tuple[bytes, int]:
        length = _WIDTH.get(self.type_.root, 8)
        if self.type_.root in _TEXTS:
            (length,) = struct.unpack_from(">i", data, at)
            at += 4
        if length < 0 or at + length > len(data):
            raise UnreadableIndex("the range-bitmap index ends early")
        return data[at : at + length], at + length

    def _sliced(self) -> tuple[BitMap, list[BitMap]]:
        head, at = _part(self.bits, 0)
        _, count, present, _ = struct.unpack_from(">BBii", head)
        rows = BitMap.deserialize(self.bits[at : at + present])
        slices = []
        left = len(self.bits) - at - present
        for number in range(count):
            offset, length = struct.unpack_from(">ii", head, 10 + 8 * number)
            start = at + present + offset
            left -= length
            if min(offset, length) < 0 or start + length > len(self.bits):
                raise UnreadableIndex("the range-bitmap index ends early")
            if left < 0:  # 255 of them would take as many times the bytes of the index
                raise UnreadableIndex("slices of the range-bitmap index lie over each other")
            slices.append(BitMap.deserialize(self.bits[start : start + length]))
        return rows, slices


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    """A part that begins with its length, and where the next begins."""
    (length,) = struct.unpack_from(">i", data, at)
    if length < 0 or at + 4 + length > len(data):
        raise UnreadableIndex("the range-bitmap index ends early")
    return data[at + 4 : at + 4 + length], at + 4 + length


def _readable(read: Callable[[], T]) -> T:
    try:
        return read()
    except (struct.error, IndexError, ValueError) as problem:
        raise UnreadableIndex("the range-bitmap index ends early") from problem
