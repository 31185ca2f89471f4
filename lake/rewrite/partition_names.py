"""Names of partitions, which are values of rows: they go with the last row, from the catalog and from the warehouse."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.records import PartitionRow
from lake.commit.claims import claimed_in
from lake.rewrite.mark_done import told_done, told_of
from lake.tables import done_marks
from lake.tables.handle import LakeTable
from model.errors import InvalidData
from table.format.hive import partition_value
from table.format.layout import default_partition_name, escape, partition_spec, respelled
from table.format.rows import binary_row
from table.retention.empty_directories import remove_empty_directories
from table.scan.going_on import Check

if TYPE_CHECKING:
    from lake.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNames:
    """What was done with the names of partitions without rows, as their directories are called."""

    gone: frozenset[str]
    left: frozenset[str]
    """Directories that stay where they lie."""
    made: frozenset[str]
    """Made by name and without rows: whether they are meant nobody could tell."""


Meant = Callable[[Collection[bytes]], tuple[Collection[bytes], Collection[bytes]]]
"""Of some partitions those that are meant, and those of which that cannot be told."""


def names_of(table: LakeTable, partitions: Iterable[Sequence[object]]) -> set[str]:
    """The names some partitions may have in the catalog, with those that say that they are done."""
    names: set[str] = set()
    for values in partitions if table.schema.partition_keys else ():
        spec = partition_spec(table.schema, values)
        for spelled in (spec, told_done(table.schema, spec)):
            names.update(done_marks.names(table.schema, spelled))
    return names


def forget_names(lake: Lake, table: LakeTable, names: Collection[str]) -> None:
    """Forget those of these names whose partitions have no rows any more, also those that were made by name."""
    if not names:
        return
    place = table.table_id, table.identifier.branch
    with lake.catalog.transaction() as tx, claimed_in(tx, None):
        tx.partitions.hold(*place, sorted(names))  # no commit gives one of them files before it is gone
        empty, _ = _by_files(table, tx.partitions.page(*place))
        tx.partitions.forget(*place, [row.name for row in empty if row.name in names])


def forget_partitions(
    lake: Lake, branches: Sequence[LakeTable], names: Collection[str], meant: Meant, *, dry_run: bool, check: Check
) -> PartitionNames:
    """Forget the partitions of a table's branches that have no rows: directories of all, rows of those of these names or ``meant``."""
    table = branches[0]
    gone: set[str] = set()
    made: set[str] = set()
    directories_in_use: set[str] = set()
    for branch in branches if table.schema.partition_keys else ():
        check()
        with lake.catalog.reading() as tx:
            rows, others = _by_files(branch, tx.partitions.page(branch.table_id, branch.identifier.branch))
        certain, unsure = _meant(branch, rows, meant)
        going = [row for row in rows if row.name in names or row.name in certain]
        leaving = {row.name for row in going}
        staying = [row for row in rows if row.name not in leaving]
        if not dry_run:
            forget_names(lake, branch, leaving)
        gone |= {_directory(branch, row.spec) for row in going}
        made |= {_directory(branch, row.spec) for row in staying if row.name in unsure}
        directories_in_use |= {directory for row in [*staying, *others] for directory in _directories(branch, row.spec)}
    directories = remove_empty_directories(table.files, table.schema, kept=directories_in_use, dry_run=dry_run, check=check)
    left = frozenset(directories.left)
    return PartitionNames(gone=frozenset(gone | directories.gone) - left, left=left, made=frozenset(made))


def _by_files(table: LakeTable, rows: Sequence[PartitionRow]) -> tuple[list[PartitionRow], list[PartitionRow]]:
    """Rows without files, and the others, with them what says that one of these is done."""
    filled = {name for row in rows if row.file_count > 0 for name in done_marks.names(table.schema, row.spec)}
    empty, others = list[PartitionRow](), list[PartitionRow]()
    for row in rows:
        names = (name for spec in told_of(table.schema, row.spec) for name in done_marks.names(table.schema, spec))
        (empty if filled.isdisjoint(names) else others).append(row)
    return empty, others


def _meant(table: LakeTable, rows: Iterable[PartitionRow], meant: Meant) -> tuple[set[str], set[str]]:
    """The names of rows that are meant, and of those that may be; one that says that another is done is meant with that."""
    by_partition: dict[bytes, set[str]] = {}
    unsure: set[str] = set()
    for row in rows:
        for spec in told_of(table.schema, row.spec):
            partition = _encoded(table, spec)
            if partition is None:
                unsure.add(row.name)
            else:
                by_partition.setdefault(partition, set()).add(row.name)
    certain, possible = meant(by_partition) if by_partition else ((), ())
    sure = {name for partition in certain for name in by_partition[partition]}
    return sure, unsure | {name for partition in possible for name in by_partition[partition]} - sure


def _encoded(table: LakeTable, spec: Mapping[str, str]) -> bytes | None:
    """The bytes of a partition; None where its text is of a type that is not read back."""
    values = values_of(table, spec)
    return None if values is None else binary_row.encode_prefixed([field.type for field in table.schema.partition_fields], values)


def values_of(table: LakeTable, spec: Mapping[str, str]) -> list[object] | None:
    """The values of a partition that is named by all its columns; None where a text is no value, or of a type that is not read back."""
    default = default_partition_name(table.schema)
    try:
        return [
            None if spec[field.name] == default else partition_value(respelled(field.type, spec[field.name], legacy=False), field.type)
            for field in table.schema.partition_fields
        ]
    except InvalidData:
        return None


def _directory(table: LakeTable, spec: Mapping[str, str]) -> str:
    return "/".join(f"{escape(key)}={escape(spec[key])}" for key in table.schema.partition_keys)


def _directories(table: LakeTable, spec: Mapping[str, str]) -> list[str]:
    return [_directory(table, spelled) for spelled in done_marks.spellings(table.schema, spec)]
