"""The metadata of Parquet files that something else may have written, or changed.

Arrow's C++ library looks at a column's type and size statistics only when Python asks for that column, and its exception ends the process
there: one in 160 single bits flipped in a footer did so. Nobody here needs the size statistics, so they are taken out before Arrow sees
them, and types are compared first. Reading rows is safe: there Arrow turns its exceptions into Python's.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from table.format.parquet.thrift import I32, STRUCT, NotCompact, Reader, Struct, structs_in

MAGIC = b"PAR1"
_TAIL_BYTES = 8
READ_BYTES = 64 << 10
"""Most footers are shorter, and are one read."""
MOST_FOOTER_BYTES = 32 << 20
"""Decoded a footer takes up to eighty times its bytes. One of a thousand columns in a hundred row groups has some 15 MB."""
_BEGIN = b"\x15"
"""The head of a footer's first field, its version, which each writer writes first."""
_ROW_GROUPS, _COLUMNS, _COLUMN, _ENCRYPTION = 4, 1, 3, 8
_TYPE, _CODEC = 1, 4
_UNWANTED = frozenset({16, 17})
"""Statistics of sizes and places."""
_TYPES = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "INT96": 3, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7}


_CODECS = range(8)


class FooterTooLarge(pa.ArrowCapacityError):  # type: ignore[misc]
    """A footer of more bytes than are read, which other readers may read."""


def footer_of(source: pa.NativeFile, *, most: int | None = None) -> bytes:
    """The footer of an open file, without its length and magic.

    Raises `pyarrow.ArrowInvalid` for a file that has none, and `FooterTooLarge` for one of more than ``most`` bytes (None for 32 MB),
    of which nothing is read then but its end.
    """
    size = source.size()
    source.seek(max(0, size - READ_BYTES))
    tail = source.read()
    length = int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
    if len(tail) < _TAIL_BYTES or tail[-4:] != MAGIC or length > size - _TAIL_BYTES - len(MAGIC):
        raise pa.ArrowInvalid("the file does not end as Parquet files do")
    most = MOST_FOOTER_BYTES if most is None else most
    if length > most:
        if source.read_at(len(_BEGIN), size - _TAIL_BYTES - length) != _BEGIN:
            raise pa.ArrowInvalid(f"no footer of {length:,} bytes lies where the file's end tells")
        raise FooterTooLarge(f"its footer has {length:,} bytes, of which at most {most:,} are read")
    if length + _TAIL_BYTES > len(tail):
        source.seek(size - _TAIL_BYTES - length)
        tail = source.read()
    return bytes(tail[-_TAIL_BYTES - length : -_TAIL_BYTES])


def summary_of(footer: bytes) -> pq.FileMetaData:
    """A footer as Arrow reads it, many times quicker than `metadata_of`: Python may ask for its rows and schema, not for its columns.

    Raises `pyarrow.ArrowInvalid` or `OSError` for bytes that are no footer.
    """
    return pq.read_metadata(io.BytesIO(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC))


def metadata_of(footer: bytes) -> pq.FileMetaData:
    """A footer as Arrow reads it, without its size statistics, so that Python may ask for each column.

    Raises `pyarrow.ArrowInvalid` for bytes that are no footer, for row groups of other columns than the schema's, and for encrypted ones.
    """
    try:
        plain, columns = _plain(footer)
    except (NotCompact, IndexError, ValueError, RecursionError) as problem:
        raise pa.ArrowInvalid(f"the footer cannot be read: {problem or type(problem).__name__}") from problem
    metadata = summary_of(plain)
    schema = metadata.schema
    types = [_TYPES.get(schema.column(at).physical_type) for at in range(len(schema))]
    if any(group != types for group in columns):
        raise pa.ArrowInvalid("a row group has other columns than the schema")
    return metadata


def _plain(footer: bytes) -> tuple[bytes, list[list[int]]]:
    """The footer without its size statistics, and the types of each row group's columns; of what there are many nothing is kept."""
    reader, plain, copied = Reader(footer), bytearray(), 0
    groups: list[list[int]] = []
    for _ in structs_in(reader, _ROW_GROUPS):
        types: list[int] = []
        for _ in structs_in(reader, _COLUMNS):
            described = False
            for field, kind in reader.fields():
                if field == _ENCRYPTION:
                    raise NotCompact("a column is encrypted")
                if field != _COLUMN or kind != STRUCT:
                    reader.skip(kind)
                    continue
                begin, described = reader.at, True
                column = Struct.read(reader)
                types.append(_number(column, _TYPE))
                if _number(column, _CODEC) not in _CODECS:
                    raise NotCompact("a column is packed by a codec that Parquet does not have")
                if not _UNWANTED.isdisjoint(column.fields):
                    column.fields = {number: value for number, value in column.fields.items() if number not in _UNWANTED}
                    plain += footer[copied:begin] + column.encoded()
                    copied = reader.at
            if not described:
                raise NotCompact("a column is not described")
        groups.append(types)
    return bytes(plain + footer[copied:]), groups


def _number(column: Struct, field: int) -> int:
    kind, value = column.fields.get(field, (0, b""))
    return Reader(value).integer() if kind == I32 else -1
