"""The metadata of Parquet files that something else may have written, or changed.

Arrow's C++ library looks at a column's type and size statistics only when Python asks for that column, and its exception ends the process
there: one in 160 single bits flipped in a footer did so. Nobody here needs the size statistics, so they are taken out before Arrow sees
them, and types are compared first. Reading rows is safe: there Arrow turns its exceptions into Python's.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from table.format.parquet.thrift import I32, LIST, STRUCT, NotCompact, Reader, Struct, changed_list

MAGIC = b"PAR1"
_TAIL_BYTES = 8
_READ_BYTES = 16 << 10
"""Most footers are shorter, and are one read."""
_ROW_GROUPS, _COLUMNS, _COLUMN, _ENCRYPTION = 4, 1, 3, 8
_TYPE, _CODEC, _SIZE_STATISTICS, _GEO_STATISTICS = 1, 4, 16, 17
_TYPES = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "INT96": 3, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7}


_CODECS = range(8)


def footer_of(source: pa.NativeFile) -> bytes:
    """The footer of an open file, without its length and magic; raises `pyarrow.ArrowInvalid` for a file that has none."""
    size = source.size()
    source.seek(max(0, size - _READ_BYTES))
    tail = source.read()
    length = int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
    if len(tail) < _TAIL_BYTES or tail[-4:] != MAGIC or length > size - _TAIL_BYTES - len(MAGIC):
        raise pa.ArrowInvalid("the file does not end as Parquet files do")
    if length + _TAIL_BYTES > len(tail):
        source.seek(size - _TAIL_BYTES - length)
        tail = source.read()
    return bytes(tail[-_TAIL_BYTES - length : -_TAIL_BYTES])


def metadata_of(footer: bytes) -> pq.FileMetaData:
    """A footer as Arrow reads it, without its size statistics, so that Python may ask for each column.

    Raises `pyarrow.ArrowInvalid` for bytes that are no footer, for row groups of other columns than the schema's, and for encrypted ones.
    """
    columns: list[list[int]] = []

    def plain_group(group: Struct) -> Struct:
        columns.append([])
        group.change(_COLUMNS, LIST, lambda chunks: changed_list(chunks, plain_column))
        return group

    def plain_column(chunk: Struct) -> Struct:
        if _COLUMN not in chunk.fields or _ENCRYPTION in chunk.fields:
            raise NotCompact("a column is encrypted, or not described")
        chunk.change(_COLUMN, STRUCT, plain_metadata)
        return chunk

    def plain_metadata(value: bytes) -> bytes:
        column = Struct.read(Reader(value))
        columns[-1].append(_number(column, _TYPE))
        if _number(column, _CODEC) not in _CODECS:
            raise NotCompact("a column is packed by a codec that Parquet does not have")
        for field in (_SIZE_STATISTICS, _GEO_STATISTICS):
            column.fields.pop(field, None)
        return column.encoded()

    try:
        file_metadata = Struct.read(Reader(footer))
        file_metadata.change(_ROW_GROUPS, LIST, lambda groups: changed_list(groups, plain_group))
        plain = file_metadata.encoded()
    except (NotCompact, IndexError, ValueError, RecursionError) as problem:
        raise pa.ArrowInvalid(f"the footer cannot be read: {problem or type(problem).__name__}") from problem
    metadata = pq.read_metadata(io.BytesIO(MAGIC + plain + len(plain).to_bytes(4, "little") + MAGIC))
    schema = metadata.schema
    types = [_TYPES.get(schema.column(at).physical_type) for at in range(len(schema))]
    if any(group != types for group in columns):
        raise pa.ArrowInvalid("a row group has other columns than the schema")
    return metadata


def _number(column: Struct, field: int) -> int:
    kind, value = column.fields.get(field, (0, b""))
    return Reader(value).integer() if kind == I32 else -1
