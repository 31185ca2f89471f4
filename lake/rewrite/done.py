"""Partitions to which nothing comes any more are marked as done: by `partition.idle-time-to-done`, or by CALL."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lake.tables.handle import LakeTable
from lake.tables.partitions import Partition
from model.options.table import TABLE_OPTIONS
from model.partition import partition_name
from model.schema.schema import Schema
from table.format.json_document import parse_json
from table.format.layout import partition_spec
from table.write.data_file import local_wall_millis
from table.write.partition_time import PartitionTime

if TYPE_CHECKING:
    from lake.lake import Lake

_LATEST_MILLIS = 253_402_300_799_999
"""The end of the year 9999."""
_DONE = ".done"
"""Behind the last value of the partition that says another one is done."""


def done_partitions(lake: Lake, table: LakeTable, *, now_millis: int | None = None) -> list[Partition]:
    """Those to be marked: for `partition.idle-time-to-done` their time is over and no file came.

    One whose time cannot be read, or that was marked since its last file, is none.
    """
    options = table.schema.options
    idle, interval = (TABLE_OPTIONS.read(options, key) for key in ("partition.idle-time-to-done", "partition.time-interval"))
    if idle is None or interval is None or not table.schema.partition_keys:
        return []
    now = local_wall_millis() if now_millis is None else now_millis
    time_of = PartitionTime.of(options)
    marked = _marked(lake, table)
    done = []
    for partition in lake.partitions(table, table.latest()):
        begin = time_of.millis(table.schema, partition.values)
        if begin is None:
            continue
        last = max(partition.last_file_millis, begin + _millis(interval))
        if now - last > _millis(idle) and not all(mark(partition) for mark in marked):
            done.append(partition)
    return done


def mark_done(lake: Lake, table: LakeTable, partitions: Sequence[Partition]) -> None:
    """Do with each partition what `partition.mark-done-action` says."""
    if not partitions:
        return
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


def _actions(table: LakeTable) -> tuple[str, ...]:
    actions: tuple[str, ...] = TABLE_OPTIONS.read(table.schema.options, "partition.mark-done-action")
    return actions


def _marked(lake: Lake, table: LakeTable) -> list[Callable[[Partition], bool]]:
    """For each action whether a partition has it behind it."""
    rows = {row.name: row for row in lake.partition_page(table)} if {"done-partition", "mark-event"} & {*_actions(table)} else {}

    def with_file(partition: Partition) -> bool:
        marker = _marker(table, partition)
        return marker is not None and marker["modificationTime"] + _offset(marker["modificationTime"]) >= partition.last_file_millis

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


def _offset(millis: int) -> int:
    """How far the local wall clock, by which files are dated, was ahead of UTC."""
    offset = dt.datetime.fromtimestamp(millis / 1000).astimezone().utcoffset() or dt.timedelta()
    return _millis(offset)


def _millis(span: dt.timedelta) -> int:
    return int(span / dt.timedelta(milliseconds=1))
