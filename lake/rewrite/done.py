"""Partitions to which nothing comes any more are marked as done by `partition.idle-time-to-done`: which these are."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lake.rewrite.mark_done import marked
from lake.tables.handle import LakeTable
from lake.tables.partitions import Partition
from model.options.table import TABLE_OPTIONS
from model.snapshot import NO_WATERMARK, Snapshot
from model.wall_clock import epoch_of_wall, local_wall_millis
from table.write.partition_time import PartitionTime

if TYPE_CHECKING:
    from lake.lake import Lake


def done_partitions(lake: Lake, table: LakeTable, *, now_millis: int | None = None) -> list[Partition]:
    """Those to be marked: for `partition.idle-time-to-done` their time is over and no file came, by the clock or the table's watermark.

    One whose time cannot be read, or that was marked since its last file, is none.
    """
    options = table.schema.options
    idle, interval = (TABLE_OPTIONS.read(options, key) for key in ("partition.idle-time-to-done", "partition.time-interval"))
    if idle is None or interval is None or not table.schema.partition_keys:
        return []
    clock = _clock(lake, table, now_millis)
    if clock is None:
        return []
    time_of = PartitionTime.of(options)
    marked_by = marked(lake, table)
    done = []
    for partition in lake.partitions(table, table.latest()):
        begin = time_of.millis(table.schema, partition.values)
        if begin is None:
            continue
        over = begin + _millis(interval) + _millis(idle)
        if clock.now > over and clock.now - clock.at(partition) > _millis(idle) and not all(mark(partition) for mark in marked_by):
            done.append(partition)
    return done


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    """The time by which partitions are over, in milliseconds; a partition's own time is on it."""

    now: int
    at: Callable[[Partition], int]
    """When the last rows came to a partition."""


def _clock(lake: Lake, table: LakeTable, now_millis: int | None) -> _Clock | None:
    """The one `partition.mark-done-action.mode` names; None where the table has no watermark yet."""
    if TABLE_OPTIONS.read(table.schema.options, "partition.mark-done-action.mode") == "process-time":
        return _Clock(now=local_wall_millis() if now_millis is None else now_millis, at=lambda partition: partition.last_file_millis)
    latest = table.latest()
    watermark = None if latest is None else latest.watermark
    if watermark is None or watermark == NO_WATERMARK:
        return None
    return _Clock(now=watermark, at=_Watermarks(lake, table).when)


class _Watermarks:
    """The watermark a table had when rows came to a partition, from the snapshots it has still."""

    def __init__(self, lake: Lake, table: LakeTable) -> None:
        self._lake = lake
        self._table = table
        self._snapshots: list[Snapshot] | None = None

    def when(self, partition: Partition) -> int:
        """Of the first snapshot since the partition's newest file was made; the least there is where that has expired, or had none.

        Rows whose snapshot has expired came long ago: by the oldest one that is left, whose watermark moves on, they would never have.
        """
        if self._snapshots is None:
            with self._lake.catalog.reading() as tx:
                rows = tx.snapshots.history(self._table.table_id, self._table.identifier.branch)
            self._snapshots = [Snapshot.from_json(row.body) for row in rows]
        made = epoch_of_wall(partition.last_file_millis)
        at = bisect_left(self._snapshots, made, key=lambda snapshot: snapshot.time_millis)
        if at == len(self._snapshots) or (at == 0 and self._snapshots[0].id > 1):
            return NO_WATERMARK
        watermark = self._snapshots[at].watermark
        return NO_WATERMARK if watermark is None else watermark


def _millis(span: dt.timedelta) -> int:
    return int(span / dt.timedelta(milliseconds=1))
