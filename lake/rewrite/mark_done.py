"""What marks a partition as done: by each of `partition.mark-done-action`, when its time is over, by CALL, or at the end of input."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from lake.tables.handle import LakeTable
from lake.tables.metadata import LakeMetadata
from lake.tables.partitions import Partition
from model.errors import LakeError
from model.options.table import TABLE_OPTIONS
from model.partition import partition_name
from model.schema.schema import Schema
from model.wall_clock import wall_of_epoch
from table.format.json_document import parse_json
from table.format.layout import partition_dirs, partition_spec
from table.format.rows import binary_row

_log = logging.getLogger(__name__)
_LATEST_MILLIS = 253_402_300_799_999
"""The end of the year 9999."""
_DONE = ".done"
"""Behind the last value of the partition that says another one is done."""


def mark_done(lake: LakeMetadata, table: LakeTable, partitions: Sequence[Partition]) -> None:
    """Do with each partition what `partition.mark-done-action` says; raises `WarehouseMismatch`, or `Unavailable` for no directory."""
    if not partitions:
        return
    lake.standing.require_own()
    table.files.require_there()
    specs = [partition_spec(table.schema, partition.values) for partition in partitions]
    for action in _actions(table):
        match action:
            case "success-file":
                for partition in partitions:
                    _write_marker(table, partition)
            case "done-partition":
                lake.create_partitions(table, [told_done(table.schema, spec) for spec in specs])
            case "mark-event":
                lake.mark_partitions_done(table, specs)


def mark_at_end(lake: LakeMetadata, table: LakeTable, partitions: Collection[bytes]) -> None:
    """Mark the partitions to which a batch brought rows (`partition.end-input-to-done`).

    What fails is told in the log alone: the rows are committed, and a statement that failed would be sent again.
    """
    if not table.schema.partition_keys:
        return
    types = [field.type for field in table.schema.partition_fields]
    try:
        mark_done(lake, table, [_named(table, binary_row.decode(types, partition)) for partition in sorted(partitions)])
    except (LakeError, OSError) as problem:
        _log.warning(
            "%d partition(s) of %s are not marked as done at the end of their input: %s", len(partitions), table.identifier, problem
        )


def _named(table: LakeTable, values: tuple[object, ...]) -> Partition:
    name = "/".join(partition_dirs(table.schema, values))
    return Partition(values=values, name=name, record_count=0, file_count=0, file_size=0, last_file_millis=0)


def _actions(table: LakeTable) -> tuple[str, ...]:
    actions: tuple[str, ...] = TABLE_OPTIONS.read(table.schema.options, "partition.mark-done-action")
    return actions


def marked(lake: LakeMetadata, table: LakeTable) -> list[Callable[[Partition], bool]]:
    """For each action whether a partition has it behind it, and nothing came to it since."""
    rows = {row.name: row for row in lake.partition_page(table)} if {"done-partition", "mark-event"} & {*_actions(table)} else {}

    def with_file(partition: Partition) -> bool:
        marker = _marker(table, partition)
        return marker is not None and wall_of_epoch(marker["modificationTime"]) >= partition.last_file_millis

    def with_partition(partition: Partition) -> bool:
        spec = told_done(table.schema, partition_spec(table.schema, partition.values))
        return partition_name(spec, table.schema.partition_keys) in rows

    def with_event(partition: Partition) -> bool:
        row = rows.get(partition_name(partition_spec(table.schema, partition.values), table.schema.partition_keys))
        return row is not None and row.done

    known = {"success-file": with_file, "done-partition": with_partition, "mark-event": with_event}
    return [known[action] for action in _actions(table)]


def told_done(schema: Schema, spec: Mapping[str, str]) -> dict[str, str]:
    """The partition that says that one is done."""
    last = schema.partition_keys[-1]
    return {**spec, last: f"{spec[last]}{_DONE}"}


def told_of(schema: Schema, spec: Mapping[str, str]) -> list[Mapping[str, str]]:
    """A partition, and the one that it says is done."""
    last = schema.partition_keys[-1]
    return [spec, {**spec, last: spec[last].removesuffix(_DONE)}] if spec[last].endswith(_DONE) else [spec]


def _marker(table: LakeTable, partition: Partition) -> dict[str, int] | None:
    """The times that a marker tells; None where there is none, or none that tells two times."""
    path = table.files.layout.success_file(table.schema, partition.name)
    if not table.files.io.file_exists(path):
        return None
    try:
        marker = parse_json(table.files.io.read(path))
        times = {name: int(marker[name]) for name in ("creationTime", "modificationTime")}
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return times if all(0 <= millis <= _LATEST_MILLIS for millis in times.values()) else None


def _write_marker(table: LakeTable, partition: Partition) -> None:
    now = time.time_ns() // 1_000_000
    before = _marker(table, partition)
    made = before["creationTime"] if before else now
    path = table.files.layout.success_file(table.schema, partition.name)
    table.files.io.write(path, json.dumps({"creationTime": made, "modificationTime": now}).encode())
