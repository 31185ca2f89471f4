"""The partitions a table has, from its live files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lake.tables.handle import LakeTable
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.layout import partition_dirs
from table.format.rows import binary_row
from table.scan.planning.partition_sums import sums_by_partition


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
    listed = []
    for partition, sums in sums_by_partition(table.files.bucket_sums(snapshot), types).items():
        values = binary_row.decode(types, partition)
        one = Partition(
            values=values, name="/".join(partition_dirs(table.schema, values)), record_count=sums.rows, file_count=sums.files,
            file_size=sums.size, last_file_millis=sums.newest_millis,
        )  # fmt: skip
        listed.append(one)
    return sorted(listed, key=lambda partition: partition.name)


def by_row(schema: Schema, partitions: Iterable[Partition]) -> dict[bytes, Partition]:
    """Partitions by their rows as manifests hold them, in their order."""
    types = [field.type for field in schema.partition_fields]
    return {binary_row.encode_prefixed(types, partition.values): partition for partition in partitions}
