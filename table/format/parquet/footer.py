"""Footers of Parquet files that another writer made: ids and annotations as Paimon's own writer gives them (`paimon-append.md` §2.4).

Spark gives its columns no ids, calls a TIMESTAMP of milliseconds an instant, one WITH LOCAL TIME ZONE of microseconds a clock time, and
a TIME a number. Readers that go by ids or annotations then find nothing, or other times. The schema is the footer's beginning, in
Thrift's compact protocol; all that follows it, and the pages, stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from model.schema.types import ArrayType, DataType, Field, LocalZonedTimestampType, MapType, RowType, TimestampType, TimeType
from table.format.field_ids import element_id, key_id, value_id
from table.format.io.storage_errors import translating
from table.format.parquet.identity import TAIL_BYTES, named_footer
from table.format.parquet.metadata import MAGIC, FooterTooLarge, footer_of
from table.format.parquet.thrift import I32, LIST, STRUCT, NotCompact, Reader, Struct, list_of, zigzag
from table.format.store import TableFiles

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_NAME, _CHILDREN, _CONVERTED, _ID, _LOGICAL = 4, 5, 6, 9, 10
_TYPE, _INT32 = 1, 1
_SCHEMA = 2
_GROUPS, _FILE_OFFSET, _COMPRESSED = 4, 5, 6
_TIME_MILLIS = 7


def layout_fault(metadata: pq.FileMetaData, footer: bytes) -> str | None:
    """What is wrong with where a footer says that rows lie: Spark leaves out, without a word, a row group that lies elsewhere.

    Row groups and their columns follow each other, and a group says of itself what its columns say together.
    """
    rows, end = 0, len(MAGIC)
    try:
        groups = _groups(footer)
    except (NotCompact, IndexError, RecursionError) as problem:
        return f"has a footer that cannot be read: {problem}"
    if len(groups) != metadata.num_row_groups:
        return "has a footer that tells two numbers of row groups"
    for number, (offset, size) in enumerate(groups):
        group = metadata.row_group(number)
        rows += group.num_rows
        first, compressed = None, 0
        for at in range(group.num_columns):
            chunk = group.column(at)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                start = min(start, chunk.dictionary_page_offset)
            if chunk.path_in_schema != metadata.schema.column(at).path:
                return f"has a row group {number} with a column {chunk.path_in_schema!r} that its schema does not have"
            if start < end:
                return f"has a row group {number} whose columns lie in each other"
            first = start if first is None else first
            end = start + chunk.total_compressed_size
            compressed += chunk.total_compressed_size
            if metadata.schema.column(at).max_repetition_level == 0 and chunk.num_values != group.num_rows:
                return f"has a row group {number} whose columns have other numbers of rows"
        if (size is not None and size != compressed) or (offset and offset != first):
            return f"has a row group {number} that does not lie where its columns do"
    return None if rows == metadata.num_rows else f"has {rows:,} rows in its row groups and tells {metadata.num_rows:,}"


def _groups(footer: bytes) -> list[tuple[int | None, int | None]]:
    """Where each row group begins and how many bytes it has, as it says itself; None for what it does not say."""
    reader = Reader(footer)
    field = 0
    while True:
        field, kind = reader.field(field)
        if not kind:
            return []
        if field != _GROUPS or kind != LIST:
            reader.skip(kind)
            continue
        count, _ = reader.list_header()
        return [_told_place(Struct.read(reader).fields) for _ in range(count)]


def _told_place(fields: Mapping[int, tuple[int, bytes]]) -> tuple[int | None, int | None]:
    return _number(fields, _FILE_OFFSET), _number(fields, _COMPRESSED)


def _number(fields: Mapping[int, tuple[int, bytes]], field: int) -> int | None:
    return Reader(fields[field][1]).integer() if field in fields else None


@dataclass(frozen=True, slots=True)
class Marks:
    """What a Parquet file ends with once its columns are marked."""

    at: int
    """Where the footer begins, behind the pages."""
    end: bytes
    changed: bool
    """Whether the file ends otherwise now."""

    def named(self, name: str, created_millis: int) -> Marks:
        """With the name of the file that will end so, and when it was made."""
        return Marks(self.at, _end(named_footer(self.end[:-TAIL_BYTES], name, created_millis, at=self.at)), True)


def _end(footer: bytes) -> bytes:
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def marks_of(source: pa.NativeFile, fields: Sequence[Field]) -> Marks | None:
    """The end of an open Parquet file with ids and annotations of columns; None for a footer of an unknown form, or too large a one."""
    size = source.size()
    try:
        footer = footer_of(source)
        marked = marked_footer(footer, fields)
        Struct.read(Reader(marked))  # all of it, so that it can be named
    except (pa.ArrowInvalid, FooterTooLarge, NotCompact, IndexError, KeyError, UnicodeDecodeError, RecursionError):
        return None
    return Marks(size - TAIL_BYTES - len(footer), _end(marked), marked != footer)


def mark_file(files: TableFiles, path: str, fields: Sequence[Field], name: str, created_millis: int) -> None:
    """Give a Parquet file of Spark's, which nobody reads yet, the name it will have and its columns their ids and annotations.

    One of an unknown form stays as it is.
    """
    with translating(path), files.io.open_input(path) as source:
        marks = marks_of(source, fields)
    if marks is not None:
        named = marks.named(name, created_millis)
        files.io.replace_end(path, named.at, named.end)


def marked_footer(footer: bytes, fields: Sequence[Field]) -> bytes:
    """The footer with ids and annotations in its schema."""
    reader = Reader(footer)
    field = 0
    while True:
        field, kind = reader.field(field)
        if field == _SCHEMA and kind == LIST:
            break
        if not kind or field > _SCHEMA:
            raise NotCompact
        reader.skip(kind)
    begin = reader.at
    count, kind = reader.list_header()
    if kind != STRUCT:
        raise NotCompact
    elements = [Struct.read(reader) for _ in range(count)]
    _Marking(elements).row(0, fields)
    return footer[:begin] + list_of(elements) + footer[reader.at :]


def _name(element: Struct) -> str:
    reader = Reader(element.fields[_NAME][1])
    length = reader.varint()
    return reader.data[reader.at : reader.at + length].decode()


def _children(element: Struct) -> int:
    return Reader(element.fields[_CHILDREN][1]).integer() if _CHILDREN in element.fields else 0


class _Marking:
    """A walk through a schema's elements, which stand parent before children."""

    def __init__(self, elements: Sequence[Struct]) -> None:
        self._elements = elements

    def row(self, at: int, fields: Sequence[Field]) -> int:
        """Mark the columns of the group at a place; returns the place behind it."""
        by_name = {field.name: field for field in fields}
        after = at + 1
        for _ in range(_children(self._elements[at])):
            field = by_name.get(_name(self._elements[after]))
            after = self._passed(after) if field is None else self._column(after, field.type, field.id, field.id, 0)
        return after

    def _column(self, at: int, type_: DataType, own: int, of: int, depth: int) -> int:
        element = self._elements[at]
        element.fields[_ID] = (I32, zigzag(own))
        match type_:
            case RowType(fields=fields):
                return self.row(at, fields)
            case ArrayType(element=inner):
                self._expect(at, 1)
                self._expect(at + 1, 1)
                return self._column(at + 2, inner, element_id(of, depth + 1), of, depth + 1)
            case MapType(key=key, value=value):
                self._expect(at, 1)
                self._expect(at + 1, 2)
                after = self._column(at + 2, key, key_id(of, depth + 1), of, depth + 1)
                return self._column(after, value, value_id(of, depth + 1), of, depth + 1)
            case TimeType() if element.fields.get(_TYPE) == (I32, zigzag(_INT32)):
                element.fields[_CONVERTED] = (I32, zigzag(_TIME_MILLIS))
                element.fields[_LOGICAL] = (STRUCT, _annotation(7, millis=True, utc=True))
            case TimestampType(precision=precision) | LocalZonedTimestampType(precision=precision):
                utc = isinstance(type_, LocalZonedTimestampType)
                wanted = {at_utc: (STRUCT, _annotation(8, millis=precision <= 3, utc=at_utc)) for at_utc in (True, False)}
                if element.fields.get(_LOGICAL) in wanted.values():  # what lies there in another form is read by its own annotation
                    element.fields[_LOGICAL] = wanted[utc]
        self._expect(at, 0)
        return at + 1

    def _expect(self, at: int, children: int) -> None:
        if _children(self._elements[at]) != children:
            raise NotCompact

    def _passed(self, at: int) -> int:
        after = at + 1
        for _ in range(_children(self._elements[at])):
            after = self._passed(after)
        return after


def _annotation(which: int, *, millis: bool, utc: bool) -> bytes:
    """A union's member of that number, which is a TIME or TIMESTAMP with its unit."""
    return bytes([which << 4 | STRUCT, 0x11 if utc else 0x12, 0x1C, 0x1C if millis else 0x2C, 0, 0, 0, 0])
