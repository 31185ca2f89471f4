"""Rows of a Parquet file as batches of bounded size, by what their values take once they are unpacked.

Parquet writes a value that repeats once, in a column's dictionary: what a column takes in the file says nothing of what its rows take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from model.errors import ResultTooLarge
from model.text.file_name import file_name
from table.format.parquet.lengths import Lengths, lengths_of
from table.format.parquet.metadata import footer_of, metadata_of, summary_of
from table.format.parquet.pages import check_pages
from table.format.rows.unpacked import plain_pieces

BATCH_ROWS = 65_536
_LEAST_ROWS = 64
_ENCODED_BYTES = 2 << 20
"""Bytes of a batch as its columns lie in the file, about."""
_MOST_BYTES = 64 << 20
"""Bytes that a batch may take where nothing but bounds is known of its values."""
_PIECE_BYTES = 8 << 20
"""Bytes of a batch whose values were measured."""
_FEWER_ROWS = 4_096
"""Batches of fewer rows cost more than measuring does."""
_DICTIONARY_BYTES = 3 << 19
"""Writers give up a dictionary of more than a megabyte: a column of less holds few other values, which Arrow would have to number."""
_MOST_ROW_BYTES = 1 << 30
_BUFFER_BYTES = 1 << 20
"""Bytes of a column read at once; without it Arrow holds whole column chunks."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_TEXTS = frozenset({"NONE", "STRING"})
"""Logical types of byte arrays that Arrow reads as dictionaries."""
_DECIMAL_BYTES = 32


def more_than_read(path: str, problem: pa.ArrowCapacityError) -> ResultTooLarge:
    """The error of a file of which something is larger than is read here."""
    return ResultTooLarge(f"The file {file_name(path)} holds more than can be read: {problem}.")


def opened(source: pa.NativeFile, *, metadata: pq.FileMetaData | None = None, **options: object) -> pq.ParquetFile:
    """A file that is read as a stream, its pages checked where they have checksums.

    Raises what `footer_of` and `summary_of` raise, where its ``metadata`` is not given.
    """
    metadata = summary_of(footer_of(source)) if metadata is None else metadata
    return pq.ParquetFile(
        source, metadata=metadata, pre_buffer=False, buffer_size=_BUFFER_BYTES, page_checksum_verification=True, **options
    )


def untrusted_batches(source: pa.NativeFile, file: pq.ParquetFile, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """`bounded_batches` of a file that anybody may have written, whose bytes are at hand: its page headers are looked at first."""
    names = file.schema_arrow.names if columns is None else columns
    check_pages(source, footer_of(source), frozenset(names))
    yield from bounded_batches(source, columns, file=file)


def bounded_batches(
    source: pa.NativeFile,
    columns: Sequence[str] | None = None,
    *,
    most_rows: int = BATCH_ROWS,
    use_threads: bool = True,
    row_groups: Sequence[int] | None = None,
    file: pq.ParquetFile | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of top-level ``columns`` (None for all), in order, in batches of some megabytes and at most ``most_rows``.

    ``row_groups``: only those of these row groups, in ascending order. ``file``: ``source`` as `opened` gives it.

    Raises `pa.ArrowCapacityError` for a row of more than 1 GB, other `pa.ArrowException` and `OSError` for a damaged file.
    """
    file = opened(source) if file is None else file
    size = sum(int(file.metadata.row_group(number).total_byte_size) for number in range(file.metadata.num_row_groups))
    rows = int(file.metadata.num_rows)
    names = file.schema_arrow.names if columns is None else list(columns)
    most_rows = min(most_rows, BATCH_ROWS)
    grows = any(_repeats(column.type) for column in file.schema_arrow if column.name in names)
    if min(rows, most_rows) * size <= _MOST_BYTES and not grows:
        yield from file.iter_batches(batch_size=most_rows, row_groups=row_groups, columns=columns, use_threads=use_threads)
        return
    layout = _Layout(metadata_of(footer_of(source)), frozenset(names), most_rows)
    for groups in layout.stretches(range(file.metadata.num_row_groups) if row_groups is None else row_groups):
        plan = layout.plan(source, file.metadata, groups)
        part = opened(source, metadata=file.metadata, read_dictionary=plan.measured) if plan.measured else file
        for together in plan.parts(groups):
            for batch in part.iter_batches(batch_size=plan.rows, row_groups=together, columns=columns, use_threads=use_threads):
                yield from plain_pieces(batch, _PIECE_BYTES)


def _repeats(type_: pa.DataType) -> bool:
    """Whether values of the type hold any number of values."""
    if pa.types.is_struct(type_):
        return any(_repeats(type_.field(number).type) for number in range(type_.num_fields))
    return bool(pa.types.is_nested(type_))


@dataclass(frozen=True, slots=True)
class _Plan:
    """How row groups are read: rows a batch, and the columns (paths of leaves) whose values are measured before they are unpacked."""

    rows: int
    measured: list[str]

    def parts(self, groups: list[int]) -> list[list[int]]:
        """The row groups that Arrow reads together; dictionaries inside other values must be of one."""
        return [[number] for number in groups] if any("." in path for path in self.measured) else [groups]


@dataclass(slots=True)
class _Leaf:
    """A column of leaves in some row groups: what is known of its values."""

    repeated: bool
    encoded: int = 0
    values: int = 0
    width: int = 0
    """Bytes of a value of fixed width."""
    longest: int = 0
    """Bytes of the longest value that a dictionary holds; 0 without one."""
    dictionaries: list[int] = field(default_factory=list)
    """The row groups where the column has a dictionary."""
    told_by_pages: list[tuple[int, int]] = field(default_factory=list)
    """The row groups, and the column's place there, where only the pages tell how long values are: they are written as what they add to
    the one before, or lie in a dictionary that Arrow does not show."""


class _Layout:
    """What the footer tells of the columns that are read."""

    def __init__(self, metadata: pq.FileMetaData, names: frozenset[str], most_rows: int) -> None:
        self._metadata, self._most_rows = metadata, most_rows
        schema = metadata.schema
        paths = [schema.column(position).path for position in range(len(schema))]
        self._positions = [position for position, path in enumerate(paths) if path.split(".", 1)[0] in names]

    def stretches(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        """Row groups that are read together: one, or several of few rows."""
        groups: list[int] = []
        rows = 0
        for number in numbers:
            more = int(self._metadata.row_group(number).num_rows)
            if groups and rows + more > _FEWER_ROWS:  # Arrow makes one dictionary of those of row groups, value by value
                yield groups
                groups, rows = [], 0
            groups.append(number)
            rows += more
        if groups:
            yield groups

    def plan(self, source: pa.NativeFile, metadata: pq.FileMetaData, groups: Sequence[int]) -> _Plan:
        """How these row groups are read, by their footer and the longest value of each dictionary."""
        leaves = {self._metadata.schema.column(position).path: self._leaf(position, groups) for position in self._positions}
        rows = max(1, sum(int(self._metadata.row_group(number).num_rows) for number in groups))
        encoded = sum(leaf.encoded for leaf in leaves.values())
        least = max(1, min(_LEAST_ROWS, _MOST_BYTES * rows // max(1, encoded)))
        batch_rows = min(self._most_rows, max(least, _ENCODED_BYTES * rows // max(1, encoded)))
        width = sum(leaf.width * max(1, leaf.values // rows) for leaf in leaves.values())
        batch_rows = max(1, min(batch_rows, _MOST_BYTES // max(1, width)))
        by_pages = self._rows_by_pages(source, [leaf for leaf in leaves.values() if leaf.told_by_pages])
        batch_rows = min(batch_rows, by_pages)
        packed = {path: leaf for path, leaf in leaves.items() if leaf.dictionaries}
        if sum(_most_bytes(leaf, leaf.encoded, batch_rows) for leaf in packed.values()) <= _MOST_BYTES:
            return _Plan(batch_rows, [])
        if rows <= min(self._most_rows, by_pages) and all(leaf.encoded <= _DICTIONARY_BYTES * len(groups) for leaf in packed.values()):
            return _Plan(rows, list(packed))  # quicker than a look at the dictionaries, and than reading values one by one
        self._measure(source, metadata, packed)
        flat = sum(leaf.longest for leaf in packed.values() if not leaf.repeated)
        batch_rows = min(batch_rows, max(_FEWER_ROWS, _MOST_BYTES // max(1, flat)))
        return _Plan(batch_rows, _to_measure(packed, batch_rows))

    def _leaf(self, position: int, groups: Sequence[int]) -> _Leaf:
        described = self._metadata.schema.column(position)
        leaf = _Leaf(repeated=described.max_repetition_level > 0)
        is_text = described.physical_type == "BYTE_ARRAY"
        for number in groups:
            chunk = self._metadata.row_group(number).column(position)
            leaf.encoded += max(0, int(chunk.total_uncompressed_size))
            leaf.values += max(0, int(chunk.num_values))
            if not is_text or described.logical_type.type == "DECIMAL":
                continue
            has_dictionary = any("DICTIONARY" in encoding for encoding in chunk.encodings)
            if has_dictionary and described.logical_type.type in _TEXTS:
                leaf.dictionaries.append(number)
            elif has_dictionary:
                leaf.told_by_pages.append((number, position))
            if "DELTA_BYTE_ARRAY" in chunk.encodings and (number, position) not in leaf.told_by_pages:
                leaf.told_by_pages.append((number, position))
        if not is_text:
            leaf.width = _WIDTHS.get(described.physical_type, max(0, described.length))
        elif described.logical_type.type == "DECIMAL":
            leaf.width = _DECIMAL_BYTES
        return leaf

    def _rows_by_pages(self, source: pa.NativeFile, leaves: Sequence[_Leaf]) -> int:
        """How many rows of these columns a batch may have."""
        longest = 0
        for leaf in leaves:
            bounds = Lengths()
            for number, position in leaf.told_by_pages:
                described, chunk = self._metadata.schema.column(position), self._metadata.row_group(number).column(position)
                repetition, definition = described.max_repetition_level, described.max_definition_level
                lengths = lengths_of(source, chunk, max_repetition=repetition, max_definition=definition)
                most = lengths.longest * max(0, int(chunk.num_values)) if chunk.has_dictionary_page else 0
                bounds.add(lengths.longest, lengths.total + most)
            longest += bounds.total if leaf.repeated and bounds.total > _MOST_BYTES else bounds.longest
        if longest > _MOST_ROW_BYTES and not any(leaf.repeated for leaf in leaves):
            raise pa.ArrowCapacityError(f"a row takes up to {longest:,} bytes, of which at most {_MOST_ROW_BYTES:,} are read")
        return max(1, _MOST_BYTES // max(1, longest))

    def _measure(self, source: pa.NativeFile, metadata: pq.FileMetaData, packed: dict[str, _Leaf]) -> None:
        """Read the dictionaries, by the first row of each row group; a list that is empty there shows none, and may hold anything."""
        for number in sorted({number for leaf in packed.values() for number in leaf.dictionaries}):
            paths = [path for path, leaf in packed.items() if number in leaf.dictionaries]
            columns = list(dict.fromkeys(path.split(".", 1)[0] for path in paths))
            file = opened(source, metadata=metadata, read_dictionary=paths)
            first = next(file.iter_batches(batch_size=1, row_groups=[number], columns=columns), None)
            known = dict(zip(self._paths(columns), _longest(first), strict=True)) if first is not None else {}
            for path in paths:
                leaf = packed[path]
                leaf.longest = max(leaf.longest, known.get(path) or leaf.encoded)

    def _paths(self, columns: Sequence[str]) -> list[str]:
        """The leaves of these columns, in the file's order."""
        paths = (self._metadata.schema.column(position).path for position in self._positions)
        return [path for path in paths if path.split(".", 1)[0] in columns]


def _most_bytes(leaf: _Leaf, longest: int, batch_rows: int) -> int:
    return longest * (leaf.values if leaf.repeated else min(leaf.values, batch_rows))


def _to_measure(packed: dict[str, _Leaf], batch_rows: int) -> list[str]:
    """The columns of the longest values, until what is left of a batch is bounded without looking."""
    worst = sorted(((_most_bytes(leaf, leaf.longest, batch_rows), path) for path, leaf in packed.items()), reverse=True)
    left = sum(size for size, _ in worst)
    measured = []
    for size, path in worst:
        if left <= _MOST_BYTES:
            break
        measured.append(path)
        left -= size
    return measured


def _longest(first: pa.RecordBatch) -> Iterator[int | None]:
    """The longest value of each leaf's dictionary, in the order of leaves; None where there is no dictionary."""
    for values in first.columns:
        yield from _longest_of(values)


def _longest_of(values: pa.Array) -> Iterator[int | None]:
    types, type_ = pa.types, values.type
    if types.is_dictionary(type_):
        yield int(pc.max(pc.binary_length(values.dictionary)).as_py() or 0) if len(values.dictionary) else None
    elif types.is_struct(type_):
        for number in range(type_.num_fields):
            yield from _longest_of(values.field(number))
    elif types.is_map(type_):
        yield from _longest_of(values.keys)
        yield from _longest_of(values.items)
    elif types.is_nested(type_):
        yield from _longest_of(values.values)
    else:
        yield None
