"""Which files a scan must read (`paimon-append.md` §4.7, 8.4): partitions, buckets and statistics decide."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from model.errors import UnsupportedType
from model.options.table import is_on
from model.predicate import Predicate
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.deletions import deletions_of
from table.format.layout import TableLayout
from table.format.manifests.entries import ManifestEntry
from table.format.store import TableFiles
from table.index.skip import without_skipped
from table.scan.planning.column_scan import plan_columns
from table.scan.planning.plan import PlannedFile as PlannedFile
from table.scan.planning.plan import ScanPlan as ScanPlan
from table.scan.skipping.entry_prune import BucketPruning, PartitionPruning, StatsPruning, planned_file
from table.scan.skipping.entry_prune import exactly as exactly
from table.scan.skipping.entry_prune import file_stats as file_stats
from table.scan.skipping.entry_prune import only_columns as only_columns


def plan_scan(files: TableFiles, schema: Schema, snapshot: Snapshot | None, predicate: Predicate | None = None) -> ScanPlan:
    """Plan a read of a snapshot under the given schema.

    Raises `UnsupportedType` for tables whose files hold parts of rows.
    """
    check_readable(schema)
    if snapshot is not None and (plan := plan_columns(files, schema, snapshot, predicate)) is not None:
        return plan
    return plan_entries(files, schema, snapshot, files.live_entries(snapshot), predicate)


def plan_entries(
    files: TableFiles, schema: Schema, snapshot: Snapshot | None, entries: Iterable[ManifestEntry], predicate: Predicate | None = None
) -> ScanPlan:
    """Plan a read of some of a snapshot's files; raises what `plan_scan` raises."""
    check_readable(schema)
    partitions = PartitionPruning(schema, predicate)
    buckets = BucketPruning(files, schema, predicate)
    matcher = StatsPruning(files, schema, predicate)
    selected: list[ManifestEntry] = []
    total, size = 0, 0
    for entry in entries:
        total += 1
        size += entry.file.file_size
        if partitions.keep(entry.partition) and buckets.keep(entry) and matcher.keep(entry):
            selected.append(entry)
    deletions = deletions_of(files, schema, snapshot)
    planned = [planned_file(files, schema, entry, partitions, deletions) for entry in _ordered(schema, selected)]
    return ScanPlan(
        snapshot_id=snapshot.id if snapshot else None,
        files=tuple(without_skipped(files, schema, planned, predicate)),
        total_files=total,
        count_bytes=lambda: size,
        predicate=predicate,
        deleted=bool(deletions),
    )


def plan_every_file(
    files: TableFiles, schema: Schema, snapshot: Snapshot | None, predicate: Predicate | None = None, *, but: Collection[str] = ()
) -> ScanPlan:
    """Plan a read of all files in partitions that may match but those at some paths; raises what `plan_scan` raises.

    Bounds, buckets and indexes are what a file's writer says of it: where no row may be missed, nothing is left out on its word. Its
    partition is what its entry says, for every reader.
    """
    plan = plan_scan(files, schema, snapshot)
    partitions = PartitionPruning(schema, predicate)
    wanted = (planned for planned in plan.files if planned.path not in but and partitions.may_hold(planned.partition))
    return replace(plan, files=tuple(wanted))


def check_readable(schema: Schema) -> None:
    """Raise `UnsupportedType` for files that hold parts of rows."""
    if is_on(schema.options, "data-evolution.enabled"):
        raise UnsupportedType("The table has 'data-evolution.enabled' = 'true': its files hold parts of rows, which are not read here.")


def check_alone(files: TableFiles, schema: Schema) -> None:
    """Raise `UnsupportedType` for a table that Paimon's clients read together with a branch: of it alone rows would be missing.

    As they do, it is taken alone where the branch is not there, and by streams.
    """
    for key in ("scan.fallback-branch", "scan.primary-branch"):
        branch = schema.options.get(key, "").strip()
        if branch and branch != files.layout.branch and files.io.exists(TableLayout(files.location, branch).schema_dir()):
            raise UnsupportedType(
                f"The table has '{key}' = '{branch}': Paimon's clients read each partition from one of the two, which is not done here. "
                f"Query the branch, `{files.name.split('$')[0]}$branch_{branch}`, or RESET the option, which ends that for them, too."
            )


def _ordered(schema: Schema, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Partitions as first seen; in a bucket by sequence, ties in manifest order (the sort is stable)."""
    first_seen: dict[bytes, int] = {}
    for entry in entries:
        first_seen.setdefault(entry.partition, len(first_seen))
    if schema.bucket <= 0:
        return sorted(entries, key=lambda e: first_seen[e.partition])
    return sorted(entries, key=lambda e: (first_seen[e.partition], e.bucket, e.file.min_sequence_number))
