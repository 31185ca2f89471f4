"""What happens to a table by itself after commits, in Paimon's order (`paimon-append.md` §6.7)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog import CatalogStore
from lake.rewrite.auto_tags import create_automatic_tags, expire_tags
from lake.rewrite.done import done_partitions, mark_done
from lake.rewrite.expiry import Removed, expire_snapshots
from lake.rewrite.partition_expiry import PartitionExpiry, expire_partitions, expired_partitions
from lake.tables.consumers import forget_consumer
from lake.tables.handle import LakeTable
from model.catalog_errors import BackupRunning, ClockInDoubt
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
    gone = [consumer.name for consumer in read_consumers(table.files) if consumer.updated_millis < limit]
    return [name for name in gone if forget_consumer(catalog, table, name, told_before=limit)]


def maintain(lake: Lake, table: LakeTable, *, partitions_due: bool = True) -> Maintained:
    """Automatic tags, tags that end, partitions, consumers and snapshots that are too old; nothing for a `write-only` table."""
    if TABLE_OPTIONS.read(table.schema.options, "write-only"):
        return Maintained()
    try:
        lake.clock.require(table.latest())
    except ClockInDoubt as doubt:  # told, and tried again at the next round
        lake.standing.tell(f"Expiry of {table.identifier} waits: {doubt.message}" if lake.clock.doubt is None else doubt.message)
        return Maintained(waits=True)
    try:
        return _maintained(lake, table, partitions_due=partitions_due)
    except BackupRunning:  # it began just now, or some round before; the next one after it does what is left
        lake.standing.tell("Nothing expires while a backup runs.")
        return Maintained(waits=True)


def _maintained(lake: Lake, table: LakeTable, *, partitions_due: bool) -> Maintained:
    made = create_automatic_tags(lake, table)
    ended = expire_tags(lake, table) if TABLE_OPTIONS.read(table.schema.options, "tag.time-expire-enabled") else []
    rules = PartitionExpiry.of(table, {}) if partitions_due else None
    old = expired_partitions(table, lake.partitions(table, table.latest()), rules) if rules else []
    if rules is not None:
        expire_partitions(lake, table, old, rules)
    mark_done(lake, table, done_partitions(lake, table))
    consumers = expire_consumers(lake.catalog, table)
    return Maintained(
        tags_made=tuple(made),
        tags_gone=tuple(tag.name for tag in ended),
        partitions_gone=tuple(partition.name for partition in old),
        consumers_gone=tuple(consumers),
        snapshots=_expire(lake, table),
    )


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
