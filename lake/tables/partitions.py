"""The partitions a table has, from its live files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lake.tables.handle import LakeTable
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.layout import partition_dirs
from table.format.rows import binary_row
from table.scan.skipping.partition_filter import by_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition of a snapshot."""

    values: tuple[object, ...]
    """In the order of the partition keys."""
    name: str
    """``a=1/b=2``, as its directory is called."""
    record_count: int
    file_count: int
    file_size: int
    last_file_millis: int


def partitions(table: LakeTable, snapshot: Snapshot | None) -> list[Partition]:
    """All partitions with rows, by name."""
    types = [field.type for field in table.schema.partition_fields]
    sums: dict[bytes, list[int]] = {}
    written_as = by_value(types)
    for bucket in table.files.bucket_sums(snapshot):
        of_partition = sums.setdefault(written_as(bucket.partition), [0, 0, 0, 0])
        of_partition[0] += bucket.rows
        of_partition[1] += bucket.files
        of_partition[2] += bucket.size
        of_partition[3] = max(of_partition[3], bucket.newest_millis)
    listed = []
    for partition, (rows, files, size, last) in sums.items():
        values = binary_row.decode(types, partition)
        name = "/".join(partition_dirs(table.schema, values))
        listed.append(Partition(values=values, name=name, record_count=rows, file_count=files, file_size=size, last_file_millis=last))
    return sorted(listed, key=lambda partition: partition.name)


def by_row(schema: Schema, partitions: Iterable[Partition]) -> dict[bytes, Partition]:
    """Partitions by their rows as manifests hold them, in their order."""
    types = [field.type for field in schema.partition_fields]
    return {binary_row.encode_prefixed(types, partition.values): partition for partition in partitions}
