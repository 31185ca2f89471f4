"""Page headers of Parquet files, looked at before Arrow believes them.

Arrow makes room for as many bytes as a page's header tells, and writes over all of it: a file of a kilobyte took two gigabytes for each
column read at a time. Python may not ask Arrow where the columns of such a file lie, as some footers end the process then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from table.format.parquet.thrift import BINARY, I32, LIST, STRUCT, NotCompact, Reader

_HEADER_BYTES = 1 << 10
_MOST_HEADER_BYTES = 16 << 20
MOST_PAGE_BYTES = 1 << 30
_I64 = 6
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_PATH, _CHUNK_SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 3, 7, 9, 11
_PLAIN_SIZE, _PACKED_SIZE = 2, 3


def check_pages(source: pa.NativeFile, footer: bytes, columns: Collection[str]) -> None:
    """Raise `pa.ArrowInvalid` for a page that its column chunk has no room for, `pa.ArrowCapacityError` for one of more than 1 GB.

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
    for _ in _structs_in(footer, _ROW_GROUPS):
        for _ in _structs_in(footer, _COLUMNS):
            yield from _chunk(footer)


def _structs_in(reader: Reader, wanted: int) -> Iterator[None]:
    """Go through a struct, and stop at each struct of that list in it, which whoever is stopped goes through."""
    field = 0
    while True:
        field, kind = reader.field(field)
        if not kind:
            return
        if field != wanted or kind != LIST:
            reader.skip(kind)
            continue
        count, inner = reader.list_header()
        if inner != STRUCT and count:
            raise NotCompact
        for _ in range(count):
            yield


def _chunk(reader: Reader) -> Iterator[tuple[bytes, int, int]]:
    field = 0
    while True:
        field, kind = reader.field(field)
        if not kind:
            return
        if field == _META_DATA and kind == STRUCT:
            yield _extent(reader)
        else:
            reader.skip(kind)


def _extent(reader: Reader) -> tuple[bytes, int, int]:
    name, numbers = b"", dict.fromkeys((_CHUNK_SIZE, _DATA_PAGE, _DICTIONARY_PAGE), -1)
    field = 0
    while True:
        field, kind = reader.field(field)
        if not kind:
            break
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
        plain_size, packed_size, header_size = _sizes(source, at, end)
        at += header_size + packed_size
        if packed_size < 0 or plain_size < 0 or at > end:
            raise pa.ArrowInvalid(f"a page tells {packed_size:,} bytes, {plain_size:,} unpacked, more than its column has there")
        if plain_size > MOST_PAGE_BYTES:
            raise pa.ArrowCapacityError(f"a page takes {plain_size:,} bytes, of which at most {MOST_PAGE_BYTES:,} are read")


def _sizes(source: pa.NativeFile, at: int, end: int) -> tuple[int, int, int]:
    """What a page takes unpacked and packed, and how long its header is, however long the values in that are."""
    wanted = _HEADER_BYTES
    while True:
        data = source.read_at(min(wanted, end - at), at)
        try:
            return _told(Reader(data))
        except IndexError:
            if len(data) < wanted or wanted >= _MOST_HEADER_BYTES:
                raise
        wanted *= 8


def _told(reader: Reader) -> tuple[int, int, int]:
    sizes = {_PLAIN_SIZE: -1, _PACKED_SIZE: -1}
    field = 0
    while True:
        field, kind = reader.field(field)
        if not kind:
            return sizes[_PLAIN_SIZE], sizes[_PACKED_SIZE], reader.at
        if field in sizes and kind == I32:
            sizes[field] = reader.integer()
        else:
            reader.skip(kind)
