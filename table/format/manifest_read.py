"""A manifest's entries, held to the types of the table's partitions: whatever asks for a partition's values may rely on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from model.schema.types import DataType
from table.format.manifest import ManifestEntry
from table.format.manifest_codec import decode_manifest, manifest_records
from table.format.manifest_columns import ManifestColumns
from table.format.rows import binary_row


def entries_in(data: bytes, types: Sequence[DataType] | None) -> list[ManifestEntry]:
    """The entries; raises anything for bytes that are no manifest of such a table. Without types partitions are taken as they are."""
    entries = decode_manifest(data)
    _check_partitions({entry.partition for entry in entries}, types)
    return entries


def columns_in(data: bytes, types: Sequence[DataType] | None) -> ManifestColumns:
    """The entries as columns; raises as `entries_in` does."""
    columns = ManifestColumns.of(manifest_records(data))
    _check_partitions(columns.partitions.to_pylist(), types)
    return columns


def _check_partitions(partitions: Iterable[bytes], types: Sequence[DataType] | None) -> None:
    if types is not None:
        for partition in partitions:
            binary_row.decode(types, partition)
