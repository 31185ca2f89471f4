"""Deletion vectors: which rows of data files are deleted while they lie there still (`paimon-append.md` §4.8)."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import fastavro
import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.cache import ByteCache
from table.format.manifests.avro import schema_of
from table.format.manifests.avro_name import named
from table.format.manifests.codec import manifest_records
from table.format.manifests.columns import Numbers
from table.format.manifests.entries import DeletionVector, ManifestEntry
from table.format.manifests.typed import VECTORS
from table.format.rows import binary_row
from table.format.store import TableFiles

INDEX_TYPE = VECTORS
_VERSION = 1
_MAGIC, _MAGIC64 = 1581511376, 1681511377
_MOST_ROWS = 1 << 27
FileKey = tuple[bytes, int, str]
"""A data file by its partition's row bytes, its bucket and its name."""


Deletions = Mapping[FileKey, DeletionVector]
_NO_DELETIONS: Deletions = {}
_KNOWN: ByteCache[str, Deletions] = ByteCache(32 << 20, lambda found: 64 + 400 * len(found))
_INDEX_FILES: ByteCache[str, bytes] = ByteCache(64 << 20, len)


def key_of(entry: ManifestEntry) -> FileKey:
    """By what an index manifest speaks of an entry's file."""
    return entry.partition, entry.bucket, entry.file.file_name


def deletions_of(files: TableFiles, schema: Schema, snapshot: Snapshot | None) -> Deletions:
    """The deletion vectors of a snapshot by data file, read once; raises `TableDamaged` where its index manifest cannot be read."""
    if snapshot is None or snapshot.index_manifest is None:
        return _NO_DELETIONS
    name = snapshot.index_manifest
    return _KNOWN.or_load(files.layout.manifest(name), lambda: dict(_vectors(files, schema, files.index_manifest(name))))


def _vectors(files: TableFiles, schema: Schema, records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[FileKey, DeletionVector]]:
    for record in records:
        if record["_INDEX_TYPE"] != INDEX_TYPE:
            continue
        path = index_path(files, schema, record)
        for vector_range in record["_DELETIONS_VECTORS_RANGES"] or ():
            vector = DeletionVector(
                path=path, offset=vector_range["f1"], length=vector_range["f2"], cardinality=vector_range.get("_CARDINALITY")
            )
            yield (record["_PARTITION"], record["_BUCKET"], vector_range["f0"]), vector


def index_path(files: TableFiles, schema: Schema, record: Mapping[str, Any]) -> str:
    """Where an index file lies that a line of an index manifest names; raises for one outside the table's places."""
    external, name = record.get("_EXTERNAL_PATH"), str(record["_FILE_NAME"])
    if external:
        return files.reach.external(external)
    if schema.options.get("index-file-in-data-file-dir", "false").lower() == "true":
        values = binary_row.decode([field.type for field in schema.partition_fields], record["_PARTITION"])
        return files.data_file(schema, values, record["_BUCKET"], name)
    return files.layout.index_file(name)


def positions(files: TableFiles, vector: DeletionVector, rows: int) -> Numbers:
    """The deleted rows of a file of so many, ascending; raises `TableDamaged` where it does not tell what was written."""
    deleted = _read(files, vector)
    if deleted and (last := deleted.max()) >= rows:
        raise files.damaged(vector.path, f"says that row {last} is deleted of a file that has {rows}")
    if vector.cardinality is not None and vector.cardinality != len(deleted):
        raise files.damaged(vector.path, f"says that {len(deleted)} rows are deleted where its manifest tells {vector.cardinality}")
    if len(deleted) > _MOST_ROWS:  # a bitmap of a megabyte holds four billion
        raise files.damaged(vector.path, f"says that {len(deleted):,} rows are deleted, of which at most {_MOST_ROWS:,} are read")
    return np.asarray(deleted.to_array(), dtype=np.int64)


def _data(files: TableFiles, path: str) -> bytes:
    try:
        return _INDEX_FILES.or_load(path, lambda: files.io.read(path))
    except FileNotFoundError:
        raise files.missing(path) from None


def _read(files: TableFiles, vector: DeletionVector) -> BitMap | BitMap64:
    try:
        return _decoded(_data(files, vector.path), vector)
    except (struct.error, ValueError, IndexError) as problem:
        raise files.damaged(vector.path, f"holds no deletion vector at {vector.offset}: {problem}") from problem


def say_the_same(files: TableFiles, one: DeletionVector | None, other: DeletionVector | None) -> bool:
    """Whether two vectors of a file delete the same rows: one may be the other's copy in a later index file.

    Raises what `positions` raises.
    """
    if one is None or other is None or one == other:
        return one == other
    return one.length == other.length and _read(files, one) == _read(files, other)


def deleted_rows(files: TableFiles, vector: DeletionVector, rows: int) -> int:
    """How many rows of a file of so many are deleted; raises what `positions` raises."""
    return len(positions(files, vector, rows)) if vector.cardinality is None else vector.cardinality


def wrong_vectors(files: TableFiles, path: str, record: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the vectors of an index file, read anew."""
    data = files.io.read(path)
    for vector_range in record["_DELETIONS_VECTORS_RANGES"] or ():
        try:
            _decoded(data, DeletionVector(path=path, offset=vector_range["f1"], length=vector_range["f2"], cardinality=None))
        except (struct.error, ValueError, IndexError) as problem:
            yield f"holds no deletion vector at {vector_range['f1']}: {problem}"
            return


def _decoded(data: bytes, vector: DeletionVector) -> BitMap | BitMap64:
    if data[:1] != bytes((_VERSION,)):
        raise ValueError("the file is of another version")
    size, magic = struct.unpack_from(">Ii", data, vector.offset)
    start = vector.offset + 4
    body = data[start : start + size]
    (checksum,) = struct.unpack_from(">I", data, start + size)
    if len(body) != size or zlib.crc32(body) != checksum:
        raise ValueError("its checksum is another")
    kind: type[BitMap | BitMap64]
    if magic == _MAGIC:
        expected, kind = vector.length, BitMap
    elif struct.unpack("<i", body[:4]) == (_MAGIC64,):
        expected, kind = vector.length - 8, BitMap64
    else:
        raise ValueError("its kind is not known")
    if size != expected:
        raise ValueError(f"it has {size} bytes where its manifest tells {expected}")
    return kind.deserialize(body[4:])


def alive(batches: Iterable[pa.RecordBatch], gone: Numbers) -> Iterator[pa.RecordBatch]:
    """The rows of a file that are not deleted, batch by batch in their order."""
    at = 0
    for batch in batches:
        low, high = np.searchsorted(gone, (at, at + batch.num_rows))
        here = gone[low:high] - at
        at += batch.num_rows
        if not len(here):
            yield batch
        elif batch.num_columns:
            mask = np.ones(batch.num_rows, dtype=bool)
            mask[here] = False
            yield batch.filter(pa.array(mask))
        else:
            yield batch.slice(0, batch.num_rows - len(here))


def with_vectors(files: TableFiles, schema: Schema, snapshot: Snapshot | None, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """A snapshot's entries, each with its file's vector: for who reads their rows to write them anew."""
    known = deletions_of(files, schema, snapshot)
    return [replace(entry, vector=known[key_of(entry)]) if key_of(entry) in known else entry for entry in entries] if known else [*entries]


def index_after(files: TableFiles, schema: Schema, snapshot: Snapshot | None, gone: Iterable[FileKey]) -> str | None:
    """The index manifest of what follows a snapshot once some files are gone: a new one where those had vectors.

    The index files stay as they are for older snapshots. In buckets the vectors that are left of one go to a new one.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return None
    lost = frozenset(gone) & deletions_of(files, schema, snapshot).keys()
    if not lost:
        return snapshot.index_manifest
    data = files.io.read(files.layout.manifest(snapshot.index_manifest))
    records = _without(files, schema, [record for record in manifest_records(data) if isinstance(record, dict)], lost)
    if not records:
        return None
    out = io.BytesIO()
    name = f"index-manifest-{uuid4()}-0"
    fastavro.writer(out, schema_of(data), records, codec="zstandard", metadata=named(name), codec_compression_level=1)
    files.io.add(files.layout.manifest(name), out.getvalue())
    return name


def index_written(files: TableFiles, schema: Schema, before: str | None, after: str | None) -> list[str]:
    """The paths of an index manifest and of the index files that it names and the one before it did not."""
    if after is None or after == before:
        return []
    known = {index_path(files, schema, record) for record in files.index_manifest(before)} if before is not None else set()
    named_now = {index_path(files, schema, record) for record in files.index_manifest(after)}
    return [files.layout.manifest(after), *sorted(named_now - known)]


def _without(files: TableFiles, schema: Schema, records: Sequence[Mapping[str, Any]], gone: frozenset[FileKey]) -> list[dict[str, Any]]:
    """The lines of an index manifest without the vectors of some files."""
    left = []
    for record in records:
        ranges = record["_DELETIONS_VECTORS_RANGES"]
        if record["_INDEX_TYPE"] != INDEX_TYPE or ranges is None:
            left.append(dict(record))
            continue
        remaining = [vector_range for vector_range in ranges if (record["_PARTITION"], record["_BUCKET"], vector_range["f0"]) not in gone]
        if not remaining:
            continue
        line = {**record, "_DELETIONS_VECTORS_RANGES": remaining, "_ROW_COUNT": len(remaining)}
        moves = len(remaining) < len(ranges) and schema.bucket > 0 and not lie_in_turn(line)
        left.append(_moved(files, schema, line) if moves else line)
    return left


def lie_in_turn(record: Mapping[str, Any]) -> bool:
    """Whether the vectors that a line of an index manifest names lie one after another from their index file's first on.

    Before 2.0 Paimon's writers of buckets read them so, wherever the line says that they lie, and take one file's for another's
    (`DeletionVectorsIndexFile.readAllDeletionVectors`).
    """
    nexts = {1}
    for vector_range in record["_DELETIONS_VECTORS_RANGES"] or ():
        if vector_range["f1"] not in nexts:
            return False
        end = vector_range["f1"] + vector_range["f2"]
        nexts = {end, end + 8}  # the length of 64 bits counts what stands before and behind the bitmap
    return True


def _moved(files: TableFiles, schema: Schema, record: Mapping[str, Any]) -> dict[str, Any]:
    """A line of an index manifest whose vectors are copied to an index file of their own, one after another as it names them."""
    path = index_path(files, schema, record)
    content, ranges = bytearray((_VERSION,)), []
    for vector_range in record["_DELETIONS_VECTORS_RANGES"]:
        at, length = vector_range["f1"], vector_range["f2"]
        _read(files, DeletionVector(path=path, offset=at, length=length, cardinality=None))
        data = _data(files, path)
        (size,) = struct.unpack_from(">I", data, at)
        ranges.append({**vector_range, "f1": len(content)})
        content += data[at : at + 8 + size]
    made = {**record, "_FILE_NAME": f"index-{uuid4()}-0", "_FILE_SIZE": len(content), "_DELETIONS_VECTORS_RANGES": ranges}
    if "_EXTERNAL_PATH" in made:
        made["_EXTERNAL_PATH"] = None
    files.io.add(index_path(files, schema, made), bytes(content))
    return made
