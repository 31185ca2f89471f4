"""Page headers of Parquet files, looked at before Arrow believes them.

Arrow allocates as many bytes as a page's header tells, and writes over all of it: a file of a kilobyte took two gigabytes for each
column read at a time. Python may not ask Arrow where the columns of such a file lie, as some footers end the process then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from table.format.parquet.thrift import BINARY, LIST, STRUCT, NotCompact, Reader, Struct, structs_in

_HEADER_BYTES = 1 << 10
_MOST_HEADER_BYTES = 16 << 20
_MOST_PAGE_BYTES = 1 << 30
_I64 = 6
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_PATH, _CHUNK_SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 3, 7, 9, 11


def check_pages(source: pa.NativeFile, footer: bytes, columns: Collection[str]) -> None:
    """Raise `pa.ArrowInvalid` for a page that its column chunk does not hold, `pa.ArrowCapacityError` for one of more than 1 GB.

    Only pages of these top-level columns are looked at, and of each only its header.
    """
    names = frozenset(name.encode() for name in columns)
    size = source.size()
    try:
        for name, begin, length in _chunks(Reader(footer)):
            if name not in names:
                continue
            if begin < 0 or length < 0 or begin + length > size:
                raise pa.ArrowInvalid("a column lies outside the file")
            _check_chunk(source, begin, begin + length)
    except (NotCompact, IndexError, RecursionError) as problem:
        raise pa.ArrowInvalid(f"its footer or the header of a page cannot be read: {problem or type(problem).__name__}") from problem


def _chunks(footer: Reader) -> Iterator[tuple[bytes, int, int]]:
    """Of each column chunk its top-level column, where it begins and how many bytes it has."""
    for _ in structs_in(footer, _ROW_GROUPS):
        for _ in structs_in(footer, _COLUMNS):
            yield from _chunk(footer)


def _chunk(reader: Reader) -> Iterator[tuple[bytes, int, int]]:
    for field, kind in reader.fields():
        if field == _META_DATA and kind == STRUCT:
            yield _extent(reader)
        else:
            reader.skip(kind)


def _extent(reader: Reader) -> tuple[bytes, int, int]:
    name, numbers = b"", dict.fromkeys((_CHUNK_SIZE, _DATA_PAGE, _DICTIONARY_PAGE), -1)
    for field, kind in reader.fields():
        if field in numbers and kind == _I64:
            numbers[field] = reader.integer()
        elif field == _PATH and kind == LIST:
            name = _first(reader)
        else:
            reader.skip(kind)
    dictionary, data = numbers[_DICTIONARY_PAGE], numbers[_DATA_PAGE]
    return name, min(dictionary, data) if dictionary > 0 else data, numbers[_CHUNK_SIZE]


def _first(reader: Reader) -> bytes:
    """The first text of a list that is gone through."""
    count, kind = reader.list_header()
    name = b""
    for number in range(count):
        begin = reader.at
        reader.skip(kind)
        if not number and kind == BINARY:
            inner = Reader(reader.data[begin : reader.at])
            inner.varint()
            name = inner.data[inner.at :]
    return name


def _check_chunk(source: pa.NativeFile, at: int, end: int) -> None:
    while at < end:
        page = header_at(source, at, end)
        at += page.size + page.packed_size
        if page.packed_size < 0 or page.plain_size < 0 or at > end:
            raise pa.ArrowInvalid(f"a page tells {page.packed_size:,} bytes, {page.plain_size:,} unpacked, more than its column has there")
        page.check_size()


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What stands before a page; sizes in bytes, and as it tells them."""

    fields: Struct
    size: int
    """Of the header itself."""

    @property
    def plain_size(self) -> int:
        """What the page takes unpacked; negative where that is not told."""
        return self.fields.integer(2)

    @property
    def packed_size(self) -> int:
        """What it takes in the file; negative where that is not told."""
        return self.fields.integer(3)

    def check_size(self) -> None:
        """Raise `pa.ArrowCapacityError` for a page of more than 1 GB."""
        if self.plain_size > _MOST_PAGE_BYTES:
            raise pa.ArrowCapacityError(f"a page takes {self.plain_size:,} bytes, of which at most {_MOST_PAGE_BYTES:,} are read")


def header_at(source: pa.NativeFile, at: int, end: int) -> PageHeader:
    """The header of the page at a place of a column chunk, however long the smallest and largest values in it are.

    Raises `IndexError` where it goes on beyond the chunk's end, and `NotCompact` where it is none.
    """
    wanted = _HEADER_BYTES
    while True:
        data = source.read_at(min(wanted, end - at), at)
        reader = Reader(data)
        try:
            return PageHeader(Struct.read(reader), reader.at)
        except IndexError:
            if len(data) < wanted or wanted >= _MOST_HEADER_BYTES:
                raise IndexError("its header") from None
        wanted *= 8
