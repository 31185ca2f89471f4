"""Thrift's compact protocol, as far as the footers of Parquet files use it: structs whose fields stay as they are encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

I32, BINARY, LIST, _SET, STRUCT = 5, 8, 9, 10, 12
_BOOLEANS = (1, 2)
_MOST_BITS = 70


class NotCompact(Exception):
    """The bytes are not of the protocol, or of a part that no footer uses."""


def varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def zigzag(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


class Reader:
    """Goes through bytes in the compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def varint(self) -> int:
        number = shift = 0
        while shift < _MOST_BITS:
            part = self.byte()
            number |= (part & 0x7F) << shift
            if part < 0x80:
                return number
            shift += 7
        raise NotCompact("a number of more than 64 bits")

    def integer(self) -> int:
        number = self.varint()
        return number >> 1 ^ -(number & 1)

    def field(self, before: int) -> tuple[int, int]:
        """The next field's number and kind; the kind is 0 at a struct's end."""
        head = self.byte()
        if not head:
            return before, 0
        return (before + (head >> 4) if head >> 4 else self.integer()), head & 0x0F

    def fields(self) -> Iterator[tuple[int, int]]:
        """The numbers and kinds of a struct's fields; whoever is given one goes past its value."""
        number, kind = self.field(0)
        while kind:
            yield number, kind
            number, kind = self.field(number)

    def list_header(self) -> tuple[int, int]:
        """How many elements of what kind follow."""
        head = self.byte()
        return (self.varint() if head >> 4 == 15 else head >> 4), head & 0x0F

    def _pass(self, count: int) -> None:
        """Go past bytes that are there: a list of what is not there would be gone through to its end, however many it claims."""
        self.at += count
        if self.at > len(self.data):
            raise IndexError("it ends early")

    def skip(self, kind: int) -> None:  # noqa: C901 - a case for each type of Thrift
        """Go past a value."""
        if kind in _BOOLEANS:
            return
        if kind == 3:
            self._pass(1)
        elif kind in (4, I32, 6):
            self.varint()
        elif kind == 7:
            self._pass(8)
        elif kind == BINARY:
            self._pass(self.varint())
        elif kind in (LIST, _SET):
            count, inner = self.list_header()
            if inner in _BOOLEANS:
                self._pass(count)
                return
            for _ in range(count):
                self.skip(inner)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        else:
            raise NotCompact


def structs_in(reader: Reader, wanted: int) -> Iterator[None]:
    """Go through a struct, and stop at each struct of that list in it, which whoever is stopped goes through."""
    for field, kind in reader.fields():
        if field != wanted or kind != LIST:
            reader.skip(kind)
            continue
        count, inner = reader.list_header()
        if inner != STRUCT and count:
            raise NotCompact
        for _ in range(count):
            yield


@dataclass(slots=True)
class Struct:
    """A struct: each of its fields as it is encoded, by number."""

    fields: dict[int, tuple[int, bytes]]

    @classmethod
    def read(cls, reader: Reader) -> Struct:
        fields: dict[int, tuple[int, bytes]] = {}
        for field, kind in reader.fields():
            begin = reader.at
            reader.skip(kind)
            fields[field] = (kind, reader.data[begin : reader.at])
        return cls(fields)

    def integer(self, field: int) -> int:
        """The number in a field of 32 bits; -1 where there is none."""
        kind, value = self.fields.get(field, (0, b""))
        return Reader(value).integer() if kind == I32 else -1

    def encoded(self) -> bytes:
        made = bytearray()
        before = 0
        for field, (kind, value) in sorted(self.fields.items()):
            step = field - before
            made += (bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + zigzag(field)) + value
            before = field
        return bytes(made) + b"\0"


def elements(value: bytes) -> list[Struct]:
    """The structs of an encoded list; raises `NotCompact` for a list of something else."""
    reader = Reader(value)
    count, kind = reader.list_header()
    if kind != STRUCT and count:
        raise NotCompact
    return [Struct.read(reader) for _ in range(count)]


def list_of(structs: Sequence[Struct]) -> bytes:
    """A list of structs, encoded."""
    count = len(structs)
    header = bytes([min(count, 15) << 4 | STRUCT]) + (varint(count) if count >= 15 else b"")
    return header + b"".join(struct.encoded() for struct in structs)
