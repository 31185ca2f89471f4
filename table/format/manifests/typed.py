"""A manifest's entries, held to the types of the table's partitions: whatever asks for a partition's values may rely on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from model.schema.types import DataType
from table.format.manifests.avro_shape import shape_fault
from table.format.manifests.codec import VERSION, entries_of, list_of, manifest_records
from table.format.manifests.columns import ManifestColumns
from table.format.manifests.entries import EntryKind, ManifestEntry, ManifestFile, bounds_of, within
from table.format.rows import binary_row

Look = Callable[[Sequence[Any]], None]
"""Gets a manifest's records as they lie in the file."""
VECTORS = "DELETION_VECTORS"
"""The type of index files that say which rows are deleted."""
_INDEX_VERSION = 1
_RANGES = "_DELETIONS_VECTORS_RANGES"


def entries_in(data: bytes, types: Sequence[DataType] | None, *, look: Look | None = None) -> list[ManifestEntry]:
    """The entries; raises anything for bytes that are no manifest of such a table. Without types partitions are taken as they are.

    With ``look`` the file is held to what other readers can read, and that goes through the records first.
    """
    records = list(manifest_records(data))
    if look is not None:
        _require_shape(data, "manifest")
        look(records)
    entries = entries_of(records)
    _check_partitions({entry.partition for entry in entries}, types)
    return entries


def columns_in(data: bytes, types: Sequence[DataType] | None) -> ManifestColumns:
    """The entries as columns; raises as `entries_in` does."""
    columns = ManifestColumns.of(manifest_records(data))
    _check_partitions(columns.partitions.to_pylist(), types)
    return columns


def index_records(data: bytes, types: Sequence[DataType] | None) -> list[dict[str, Any]]:
    """The entries of an index manifest, as Avro holds them; raises anything for bytes that are none of such a table."""
    records = list(manifest_records(data))
    for record in records:
        names = {"_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE"}
        if record["_INDEX_TYPE"] == VECTORS:
            names.add(_RANGES)
        if missing := names - record.keys():
            raise ValueError(f"an entry has no {min(missing)}")
        if record["_INDEX_TYPE"] == VECTORS and not all(one and {"f0", "f1", "f2"} <= one.keys() for one in record[_RANGES] or ()):
            raise ValueError("an entry does not tell where a vector lies")
    _check_partitions({record["_PARTITION"] for record in records}, types)
    return records


def claimed_list(data: bytes, carried: Collection[str] = ()) -> list[ManifestFile]:
    """The manifests of a list that a client hands in; raises anything for bytes that are none, or that other readers cannot read.

    Lines of manifests that are ``carried`` on are as they were.
    """
    records = list(manifest_records(data))  # which bounds what a header may have
    _require_shape(data, "list")
    _require_version([record for record in records if record["_FILE_NAME"] not in carried], VERSION)
    return list_of(records)


def claimed_index(data: bytes, types: Sequence[DataType] | None) -> list[dict[str, Any]]:
    """The same of an index manifest."""
    records = index_records(data, types)
    _require_shape(data, "index")
    _require_version(records, _INDEX_VERSION)
    return records


def _require_version(records: Iterable[Any], version: int) -> None:
    if strange := [record["_VERSION"] for record in records if record["_VERSION"] != version]:
        raise ValueError(f"a line is of version {strange[0]}, which no reader knows")


def _require_shape(data: bytes, kind: str) -> None:
    if (problem := shape_fault(data, kind)) is not None:
        raise ValueError(problem)


def wrong_size(found: int, named: int | None) -> str | None:
    """What is wrong with a list or manifest of another size than what names it tells."""
    return None if named is None or found == named else f"has {found:,} bytes where what names it tells {named:,}"


def wrong_entries(meta: ManifestFile, entries: Sequence[ManifestEntry] | ManifestColumns, types: Sequence[DataType] | None) -> str | None:
    """What is wrong with a manifest that holds others than its line in the list tells, by which readers leave manifests out."""
    if isinstance(entries, ManifestColumns):
        removed, buckets, partitions = entries.deletes, entries.numbers("bucket"), set(entries.partitions.to_pylist())
    else:
        removed = sum(entry.kind is EntryKind.DELETE for entry in entries)
        buckets, partitions = np.array([entry.bucket for entry in entries], dtype=np.int64), {entry.partition for entry in entries}
    if (len(entries) - removed, removed) != (meta.num_added_files, meta.num_deleted_files):
        listed = f"{meta.num_added_files:,} and {meta.num_deleted_files:,}"
        return f"adds {len(entries) - removed:,} files and removes {removed:,} where its list tells {listed}"
    low, high = meta.min_bucket, meta.max_bucket
    if len(buckets) and ((low is not None and buckets.min() < low) or (high is not None and buckets.max() > high)):
        return "speaks of other buckets than its list tells"
    bounds = bounds_of(meta.partition_stats, types) if types else None
    rows = (binary_row.decode(types, partition) for partition in partitions) if types and bounds is not None else ()
    if bounds is not None and not all(within(*cell, unbounded=True) for row in rows for cell in zip(row, *bounds, strict=True)):
        return "speaks of other partitions than its list tells"
    return None


def _check_partitions(partitions: Iterable[bytes], types: Sequence[DataType] | None) -> None:
    if types is not None:
        for partition in partitions:
            binary_row.decode(types, partition)
