"""A manifest as columns: what planning looks at for every file, and all it takes to give back the entries of a few.

It is a function of the manifest alone, so it may be kept in a file (`table/scan/planning/column_cache.py`) and mapped from there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table.format.manifests.codec import BOUNDS, bounded, epoch_millis
from table.format.manifests.entries import DataFile, EntryKind, FileSource, ManifestEntry, ManifestFile, SimpleStats

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

_CHUNK = 512
"""Entries turned into columns, or back, at once: few, as Python looks through all objects there are while it makes many."""
_MANY_ENTRIES = 4096
"""Entries from which manifests are looked at as columns; fewer are decoded quicker than columns are set up."""
_TEXTS = pa.list_(pa.string())
_FIELDS = pa.schema(
    [
        pa.field("key", pa.binary(16)),
        pa.field("kind", pa.int8()),
        pa.field("partition", pa.dictionary(pa.int32(), pa.binary())),
        pa.field("bucket", pa.int32()),
        pa.field("total_buckets", pa.int32()),
        pa.field("file_name", pa.string()),
        pa.field("file_size", pa.int64()),
        pa.field("row_count", pa.int64()),
        pa.field("min_values", pa.binary()),
        pa.field("max_values", pa.binary()),
        pa.field("null_counts", pa.list_(pa.int64())),
        pa.field("layout", pa.int32()),
        pa.field("min_sequence_number", pa.int64()),
        pa.field("max_sequence_number", pa.int64()),
        pa.field("schema_id", pa.int64()),
        pa.field("level", pa.int32()),
        pa.field("extra_files", _TEXTS),
        pa.field("creation_time", pa.int64()),
        pa.field("delete_row_count", pa.int64()),
        pa.field("embedded_file_index", pa.binary()),
        pa.field("file_source", pa.int32()),
        pa.field("external_path", pa.string()),
        pa.field("first_row_id", pa.int64()),
        pa.field("write_cols", _TEXTS),
        pa.field("write_cols_sequences", pa.list_(pa.int64())),
    ]
)
_OWN = pa.schema([field for field in _FIELDS if field.name != "partition"])
"""What lies in the columns entry by entry; partitions are numbered over the whole manifest."""
_LAYOUTS = b"sluice.layouts"


class _Codes(dict[Any, int]):
    """Numbers given to values as they are first seen."""

    def __missing__(self, value: Any) -> int:
        self[value] = len(self)
        return self[value]


def key_digest(  # noqa: PLR0913 - the parts of a key
    partition: bytes, bucket: int, level: int, name: str, extra: Sequence[str], index: bytes | None, external: str | None
) -> bytes:
    """128 bits of what makes two entries speak of the same file (`ManifestEntry.key`): equal digests are equal keys."""
    head = b"%d %d %d %b %b" % (bucket, level, len(partition), partition, name.encode())
    if extra or index is not None or external is not None:
        head = repr((head, tuple(extra), index, external)).encode()
    return blake2b(head, digest_size=16).digest()


def digest_of(entry: ManifestEntry) -> bytes:
    """The digest of an entry's key."""
    f = entry.file
    return key_digest(entry.partition, entry.bucket, f.level, f.file_name, f.extra_files, f.embedded_file_index, f.external_path)


class ManifestColumns:
    """The entries of one manifest as an Arrow record batch."""

    def __init__(self, table: pa.Table) -> None:
        self._batch = _one_batch(table)
        self._layouts: list[list[str] | None] = json.loads((table.schema.metadata or {}).get(_LAYOUTS, b"[]"))

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> ManifestColumns:
        """The columns of a manifest's Avro records, which are looked at once and in their order."""
        partitions, layouts = _Codes(), _Codes()
        codes: list[int] = []
        chunks = []
        left = iter(records)
        while chunk := list(islice(left, _CHUNK)):
            codes += [partitions[record["_PARTITION"]] for record in chunk]
            columns = _columns(chunk, layouts)
            chunks.append(pa.RecordBatch.from_arrays([pa.array(v, _OWN.field(n).type) for n, v in columns.items()], names=list(columns)))
        table = pa.Table.from_batches(chunks, _OWN).combine_chunks()
        for name in BOUNDS.keys() & set(_OWN.names):
            ends = pc.min_max(table[name]).as_py()
            for end in ends.values():
                bounded(name, end)
        indices = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(partitions), pa.binary()))
        table = table.add_column(_FIELDS.get_field_index("partition"), _FIELDS.field("partition"), indices)
        return cls(table.replace_schema_metadata({_LAYOUTS: json.dumps(list(layouts)).encode()}))

    def to_table(self) -> pa.Table:
        """What `ManifestColumns` is made from."""
        metadata = {_LAYOUTS: json.dumps(self._layouts).encode()}
        return pa.Table.from_batches([self._batch]).replace_schema_metadata(metadata)

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, in memory or mapped."""
        return int(self._batch.nbytes)

    def column(self, name: str) -> pa.Array:
        """One column."""
        return self._batch.column(name)

    def numbers(self, name: str) -> np.ndarray[Any, Any]:
        """A column of numbers that are never NULL, without a copy."""
        numbers: np.ndarray[Any, Any] = self.column(name).to_numpy()
        return numbers

    @cached_property
    def partitions(self) -> pa.Array:
        """The distinct partitions, as row bytes."""
        return self.column("partition").dictionary

    @cached_property
    def partition_codes(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Which of `partitions` each entry belongs to."""
        codes: np.ndarray[Any, np.dtype[np.int32]] = self.column("partition").indices.to_numpy()
        return codes

    @cached_property
    def keys(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The digest of each entry's key, as two numbers."""
        column = self.column("key")
        words = np.frombuffer(column.buffers()[1], dtype=np.uint64).reshape(-1, 2)
        return words[column.offset : column.offset + len(column)]

    @cached_property
    def deletes(self) -> int:
        """How many entries remove a file."""
        return int(np.count_nonzero(self.numbers("kind") == EntryKind.DELETE))

    @cached_property
    def beside(self) -> Mask:
        """Which files have something beside them."""
        lengths: Numbers = self.column("extra_files").value_lengths().to_numpy()
        mask: Mask = lengths > 0
        return mask

    @cached_property
    def index_bytes(self) -> Numbers:
        """How much lies in each entry as its file's index; 0 for nothing."""
        lengths: Numbers = pc.fill_null(pc.binary_length(self.column("embedded_file_index")), 0).to_numpy(zero_copy_only=False)
        return lengths

    @cached_property
    def statistics_shapes(self) -> list[tuple[int, list[str] | None, Mask | None]]:
        """The schema versions and column lists under which statistics lie here, and which entries are of each; None means all."""
        shapes = self.numbers("schema_id") * (len(self._layouts) + 1) + self.numbers("layout")
        groups = []
        for shape in np.unique(shapes).tolist():
            schema_id, layout = divmod(shape, len(self._layouts) + 1)
            mask = shapes == shape
            groups.append((schema_id, self._layouts[layout], None if mask.all() else mask))
        return groups

    def of_keys(self, digests: Collection[bytes]) -> Mask:
        """Which entries have one of these keys (`digest_of`)."""
        mask: Mask = pc.is_in(self.column("key"), value_set=pa.array(list(digests), pa.binary(16))).to_numpy(zero_copy_only=False)
        return mask

    def entries(self, rows: Numbers | None = None) -> Iterator[ManifestEntry]:
        """The entries of some rows, in the rows' order, or all."""
        count = len(self) if rows is None else len(rows)
        for at in range(0, count, _CHUNK):
            picked = self._batch.slice(at, _CHUNK) if rows is None else self._batch.take(pa.array(rows[at : at + _CHUNK]))
            yield from self._rebuilt(picked.to_pydict())

    def _rebuilt(self, values: Mapping[str, Sequence[Any]]) -> Iterator[ManifestEntry]:
        layouts = [None if layout is None else tuple(layout) for layout in self._layouts]
        for row in zip(*(values[name] for name in _FIELDS.names), strict=True):
            (
                _, kind, partition, bucket, total_buckets, name, size, rows, low, high, nulls, layout, first, last, schema_id, level,
                extra, created, deleted, index, source, external, row_id, cols, sequences,
            ) = row  # fmt: skip
            yield ManifestEntry(
                kind=EntryKind(kind),
                partition=partition,
                bucket=bucket,
                total_buckets=total_buckets,
                file=DataFile(
                    file_name=name,
                    file_size=size,
                    row_count=rows,
                    value_stats=SimpleStats(low, high, tuple(nulls)),
                    value_stats_cols=layouts[layout],
                    min_sequence_number=first,
                    max_sequence_number=last,
                    schema_id=schema_id,
                    level=level,
                    extra_files=tuple(extra),
                    creation_time_millis=created,
                    delete_row_count=deleted,
                    embedded_file_index=index,
                    file_source=None if source is None else FileSource(source),
                    external_path=external,
                    first_row_id=row_id,
                    write_cols=None if cols is None else tuple(cols),
                    write_cols_sequences=None if sequences is None else tuple(sequences),
                ),
            )


def _columns(chunk: Sequence[Mapping[str, Any]], layouts: _Codes) -> dict[str, list[Any]]:
    """Some Avro records by column, but for their partition; what an older writer left out is as `decode_manifest` takes it."""
    files = [record["_FILE"] for record in chunk]
    stats = [file["_VALUE_STATS"] for file in files]
    buckets, names = [record["_BUCKET"] for record in chunk], [file["_FILE_NAME"] for file in files]
    levels, extra = [file["_LEVEL"] for file in files], [file.get("_EXTRA_FILES") or () for file in files]
    indexes, external = _given(files, "_EMBEDDED_FILE_INDEX"), _given(files, "_EXTERNAL_PATH")
    keys = map(key_digest, [record["_PARTITION"] for record in chunk], buckets, levels, names, extra, indexes, external)
    return {
        "key": list(keys),
        "kind": [record["_KIND"] for record in chunk],
        "bucket": buckets,
        "total_buckets": [record["_TOTAL_BUCKETS"] for record in chunk],
        "file_name": names,
        "file_size": [file["_FILE_SIZE"] for file in files],
        "row_count": [file["_ROW_COUNT"] for file in files],
        "min_values": [stat["_MIN_VALUES"] for stat in stats],
        "max_values": [stat["_MAX_VALUES"] for stat in stats],
        "null_counts": [stat.get("_NULL_COUNTS") or () for stat in stats],
        "layout": [layouts[None if cols is None else tuple(cols)] for cols in _given(files, "_VALUE_STATS_COLS")],
        "min_sequence_number": [file["_MIN_SEQUENCE_NUMBER"] for file in files],
        "max_sequence_number": [file["_MAX_SEQUENCE_NUMBER"] for file in files],
        "schema_id": [file["_SCHEMA_ID"] for file in files],
        "level": levels,
        "extra_files": extra,
        "creation_time": [epoch_millis(file.get("_CREATION_TIME")) for file in files],
        "delete_row_count": _given(files, "_DELETE_ROW_COUNT"),
        "embedded_file_index": indexes,
        "file_source": _given(files, "_FILE_SOURCE"),
        "external_path": external,
        "first_row_id": _given(files, "_FIRST_ROW_ID"),
        "write_cols": _given(files, "_WRITE_COLS"),
        "write_cols_sequences": _given(files, "_WRITE_COLS_SEQUENCES"),
    }


def _given(files: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [file.get(name) for file in files]


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """The table's only batch; raises `ValueError` for columns that are not a manifest's."""
    if not table.schema.equals(_FIELDS):
        raise ValueError("these columns are not a manifest's")
    batches = table.to_batches()
    return batches[0] if len(batches) == 1 else pa.RecordBatch.from_arrays([_whole(c) for c in table.columns], schema=table.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def many_entries(manifests: Iterable[ManifestFile]) -> bool:
    """Whether manifests hold so many entries that they are better looked at as columns."""
    return entry_count(manifests) >= _MANY_ENTRIES


def entry_count(manifests: Iterable[ManifestFile]) -> int:
    """How many entries manifests hold, by what their list says."""
    return sum(meta.num_added_files + meta.num_deleted_files for meta in manifests)
