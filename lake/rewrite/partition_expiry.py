"""Partitions that are too old, by what their values say or by when something last came (`paimon-append.md` §6.7)."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from catalog import CatalogStore
from lake.commit.claims import Claim
from lake.commit.steps import Steps
from lake.inspect.counts import last_changes
from lake.tables.handle import LakeTable
from lake.tables.partitions import Partition, by_row
from model.errors import LakeError
from model.options.table import TABLE_OPTIONS
from model.partition import partition_name
from model.repeats import REPEATS
from model.snapshot import CommitKind, Snapshot
from model.wall_clock import local_wall_millis, wall_of_epoch
from model.work.deciding import to_the_end
from table.format.layout import partition_spec
from table.format.manifests.entries import ManifestEntry
from table.scan.skipping.partition_filter import among, by_value
from table.write.partition_time import PartitionTime
from table.write.snapshot_builder import CommitRequest

if TYPE_CHECKING:
    from lake.lake import Lake

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiry:
    """When a table's partitions are too old."""

    after: dt.timedelta
    strategy: str
    time: PartitionTime
    at_most: int
    batch: int | None = None
    """Partitions that go in one commit; None for all."""

    @classmethod
    def of(cls, table: LakeTable, given: Mapping[str, str]) -> PartitionExpiry | None:
        """What the table's options and those of a call over them say; None where partitions do not expire."""
        options = {**table.schema.options, **given}
        after = TABLE_OPTIONS.read(options, "partition.expiration-time")
        if after is None or not table.schema.partition_keys:
            return None
        return cls(
            after=after,
            strategy=TABLE_OPTIONS.read(options, "partition.expiration-strategy"),
            time=PartitionTime.of(options),
            at_most=TABLE_OPTIONS.read(options, "partition.expiration-max-num"),
            batch=TABLE_OPTIONS.read(options, "partition.expiration-batch-size"),
        )


def old_partitions(table: LakeTable, partitions: Sequence[Partition], rules: PartitionExpiry) -> list[Partition]:
    """The partitions that are too old by what files and values tell, oldest first; one whose time cannot be read is kept."""
    limit = _limit(rules)
    old: list[tuple[int, Partition]] = []
    for partition in partitions:
        when = partition.last_file_millis if rules.strategy == "update-time" else rules.time.millis(table.schema, partition.values)
        if when is not None and when < limit:
            old.append((when, partition))
    return [partition for _, partition in sorted(old, key=lambda pair: (pair[0], pair[1].name))]


def expired_partitions(catalog: CatalogStore, table: LakeTable, partitions: Sequence[Partition], rules: PartitionExpiry) -> list[Partition]:
    """The oldest of the partitions that are too old, as many as go at once.

    One goes by its update only where the catalog, too, has heard of none since, by Postgres's clock: files tell the clock of whoever made
    them, which may have been behind.
    """
    old = old_partitions(table, partitions, rules)
    if old and rules.strategy == "update-time":
        changes, limit = last_changes(catalog, table, [_catalog_name(table, partition) for partition in old]), _limit(rules)
        changed = {name for name, at in changes.items() if wall_of_epoch(round(at.timestamp() * 1000)) >= limit}
        old = [partition for partition in old if _catalog_name(table, partition) not in changed]
    return old[: rules.at_most]


def _limit(rules: PartitionExpiry) -> int:
    return local_wall_millis() - int(rules.after.total_seconds() * 1000)


def _catalog_name(table: LakeTable, partition: Partition) -> str:
    return partition_name(partition_spec(table.schema, partition.values), table.schema.partition_keys)


def expire_partitions(
    lake: Lake, table: LakeTable, partitions: Sequence[Partition], rules: PartitionExpiry, *, claim: Claim | None = None
) -> None:
    """Remove partitions that are too old, in commits of `partition.expiration-batch-size` each; once under a claim that the last holds."""
    size = rules.batch or max(1, len(partitions))
    with Steps("The expiry of partitions"):
        for at in range(0, len(partitions), size):
            batch, claimed = partitions[at : at + size], claim if at + size >= len(partitions) else None
            drop_partitions(lake, table, batch, claim=claimed, idle=rules.strategy == "update-time")


def drop_partitions(
    lake: Lake, table: LakeTable, partitions: Sequence[Partition], *, claim: Claim | None = None, idle: bool = False
) -> Snapshot | None:
    """Remove partitions with all their rows as one commit, once under a claim; earlier snapshots still hold them.

    Where they go because they are ``idle``, those stay to which something came since they were looked at.
    """
    if not partitions:
        return None
    types = [f.type for f in table.schema.partition_fields]
    gone = by_row(table.schema, partitions)
    written_as = by_value(types)
    request: dict[str, Any] = {"kind": CommitKind.OVERWRITE, "overwrite": among(types, gone), "commit_user": str(uuid4())}

    def changed(partition: bytes, entries: Sequence[ManifestEntry]) -> bool:
        seen = gone[written_as(partition)]
        rows, size = sum(entry.file.row_count for entry in entries), sum(entry.file.file_size for entry in entries)
        return (seen.file_count, seen.record_count, seen.file_size) != (len(entries), rows, size)

    done = CommitRequest(**request, operation="DROP_PARTITION", spared=changed if idle else None)
    return lake.commit(table, done, claim=claim, answer=lambda snapshot: {"ok": True})


def drop_named(
    lake: Lake, table: LakeTable, partitions: Sequence[Partition], made_by_name: Sequence[Mapping[str, str]], *, claim: Claim | None = None
) -> None:
    """Remove partitions with all their rows, and others that were made by name without any; once under a claim.

    The rows go first, in the one commit that holds the claim: a repeat of what was ended before it finds all names that it means.
    """
    specs = [dict(spec) for spec in made_by_name]
    if drop_partitions(lake, table, partitions, claim=claim) is None:
        if specs:
            lake.drop_partitions(table, specs, claim=claim)
    elif specs:
        try:
            with to_the_end():
                lake.drop_partitions(table, specs)
        except LakeError as problem:  # what the statement takes away is gone, and a repeat would refuse the partitions that had rows
            _log.warning("Partitions of %s without rows are still listed: %s", table.identifier, problem, extra=REPEATS)
