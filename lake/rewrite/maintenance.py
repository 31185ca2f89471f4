"""What happens to a table by itself after commits, in Paimon's order (`paimon-append.md` §6.7)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from catalog import CatalogStore
from lake.rewrite.auto_tags import create_automatic_tags, expire_tags
from lake.rewrite.done import done_partitions
from lake.rewrite.expiry import Removed, expire_snapshots
from lake.rewrite.mark_done import mark_done
from lake.rewrite.partition_expiry import PartitionExpiry, expire_partitions, expired_partitions
from lake.rewrite.store_clock import behind_millis
from lake.tables.consumers import forget_consumer
from lake.tables.handle import LakeTable
from model.catalog_errors import BackupRunning, ClockInDoubt
from model.errors import InvalidName, InvalidOption
from model.options.table import TABLE_OPTIONS
from table.format.consumers import read_consumers
from table.retention.expiry import ExpiryRules

if TYPE_CHECKING:
    from lake.lake import Lake


_MOST_RUNS = 40
"""Runs of expiry in one round; what is left waits for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What one round did."""

    tags_made: tuple[str, ...] = ()
    tags_gone: tuple[str, ...] = ()
    partitions_gone: tuple[str, ...] = ()
    consumers_gone: tuple[str, ...] = ()
    snapshots: Removed = field(default_factory=Removed)
    waits: bool = False
    """Whether something may have to go and could not yet; the rest is not told then."""


def expire_consumers(catalog: CatalogStore, table: LakeTable) -> list[str]:
    """Forget consumers that told no progress for `consumer.expiration-time`."""
    after = TABLE_OPTIONS.read(table.schema.options, "consumer.expiration-time")
    if after is None:
        return []
    limit = time.time_ns() // 1_000_000 - int(after.total_seconds() * 1000)
    told = {consumer.name: consumer.updated_millis for consumer in read_consumers(table.files)}
    if min(told.values(), default=limit) < limit:
        behind = behind_millis(table.files.io, table.files.layout.consumer_dir())
        if behind is None:
            return []  # the next round asks again
        limit -= behind
    gone = [name for name, millis in told.items() if millis < limit]
    return [name for name in gone if forget_consumer(catalog, table, name, told_before=limit)]


def maintain(lake: Lake, table: LakeTable, *, partitions_due: bool = True) -> Maintained:
    """Automatic tags, tags that end, partitions, consumers and snapshots that are too old; of a `write-only` table marks alone.

    What has ended is told of all tables: Paimon's marks are its writers', which do not ask who maintains the table. Raises
    `WarehouseMismatch`.
    """
    lake.standing.require_own()
    write_only = TABLE_OPTIONS.read(table.schema.options, "write-only")
    if write_only and TABLE_OPTIONS.read(table.schema.options, "partition.idle-time-to-done") is None:
        return Maintained()
    try:
        lake.clock.require(table.latest())
    except ClockInDoubt as doubt:  # told, and tried again at the next round
        if lake.clock.doubt is None:
            lake.standing.tell(f"Expiry of {table.identifier} waits: {doubt.message}")
        else:  # its text tells the time, which is another each time
            lake.standing.tell(doubt.message, about="the clock")
        return Maintained(waits=True)
    try:
        return _marked(lake, table) if write_only else _maintained(lake, table, partitions_due=partitions_due)
    except BackupRunning:  # it began just now, or some round before; the next one after it does what is left
        lake.standing.tell("Nothing expires while a backup runs.")
        return Maintained(waits=True)


def _maintained(lake: Lake, table: LakeTable, *, partitions_due: bool) -> Maintained:
    """Tags first: where they cannot be made, what they are to keep stays. Nothing else keeps the others from their part."""
    try:
        made = create_automatic_tags(lake, table)
    except (InvalidOption, InvalidName) as problem:  # as an earlier version, or another client, has stored it
        lake.standing.tell(f"Nothing of {table.identifier} expires until the option of its automatic tags is set anew: {problem.message}")
        return _marked(lake, table)
    parts = _Parts(lake, table)
    with parts.part():
        ended = expire_tags(lake, table) if TABLE_OPTIONS.read(table.schema.options, "tag.time-expire-enabled") else []
        parts.done = replace(parts.done, tags_gone=tuple(tag.name for tag in ended))
    with parts.part():
        rules = PartitionExpiry.of(table, {}) if partitions_due else None
        if rules is not None:
            old = expired_partitions(lake.catalog, table, lake.partitions(table, table.latest()), rules)
            expire_partitions(lake, table, old, rules)
            parts.done = replace(parts.done, partitions_gone=tuple(partition.name for partition in old))
    with parts.part():
        _mark(lake, table)
    with parts.part():
        parts.done = replace(parts.done, consumers_gone=tuple(expire_consumers(lake.catalog, table)))
    with parts.part():
        parts.done = replace(parts.done, snapshots=_expire(lake, table))
    parts.end()
    return replace(parts.done, tags_made=tuple(made))


def _marked(lake: Lake, table: LakeTable) -> Maintained:
    parts = _Parts(lake, table)
    with parts.part():
        _mark(lake, table)
    parts.end()
    return parts.done


def _mark(lake: Lake, table: LakeTable) -> None:
    mark_done(lake, table, done_partitions(lake, table))


class _Parts:
    """The parts of a round, each by itself: what an option's value stops is told, and another failure is raised when all had their turn."""

    def __init__(self, lake: Lake, table: LakeTable) -> None:
        self._lake = lake
        self._table = table
        self._failure: Exception | None = None
        self.done = Maintained()

    @contextmanager
    def part(self) -> Iterator[None]:
        """Around one part."""
        try:
            yield
        except BackupRunning:  # it holds the other parts up, too
            raise
        except InvalidOption as problem:
            self._lake.standing.tell(
                f"Maintenance of {self._table.identifier} leaves a part out until the option is set anew: {problem.message}"
            )
        except Exception as problem:
            self._failure = self._failure or problem

    def end(self) -> None:
        """Raise the first failure."""
        if self._failure is not None:
            raise self._failure


def _expire(lake: Lake, table: LakeTable) -> Removed:
    """Run after run until no run is full: many commits may have come since the last time."""
    rules = ExpiryRules.of(table.schema)
    done = Removed()
    for _ in range(_MOST_RUNS):
        run = expire_snapshots(lake, table, rules)
        done += run
        if rules.per_run is None or len(run.snapshots) < rules.per_run:
            break
    return done
