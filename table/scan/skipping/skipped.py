"""What a plan reads and what it leaves out, file by file, for a picture of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from model.schema.schema import Schema
from table.format.layout import partition_text
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from table.scan.planning.plan import PlannedFile, ScanPlan
from table.scan.skipping.entry_prune import exactly, only_columns, wanted_buckets
from table.scan.skipping.prune import may_match

MOST_FILES = 2000
"""Of a larger table only the sums are told."""


class Fate(StrEnum):
    """What becomes of a file, and what decided it."""

    KEPT = "kept"
    PARTITION = "partition"
    BUCKET = "bucket"
    STATISTICS = "statistics"
    """Its smallest and largest values, its NULLs, or an index of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturedFile:
    """A file of the snapshot."""

    partition: str
    bucket: int
    size: int
    rows: int
    fate: Fate


def pictured(files: TableFiles, schema: Schema, plan: ScanPlan, *, most: int = MOST_FILES) -> list[PicturedFile] | None:
    """Every file of the planned snapshot with its fate; None for too many, and for a read of only a part of a snapshot."""
    if plan.snapshot_id is None or plan.total_files > most:
        return None
    whole = plan_scan(files, schema, files.read_snapshot(plan.snapshot_id))
    if len(whole.files) != plan.total_files:
        return None
    return list(_fates(schema, plan, list(whole.files)))


def _fates(schema: Schema, plan: ScanPlan, whole: list[PlannedFile]) -> Iterator[PicturedFile]:
    planned_paths = {planned.path for planned in plan.files}
    of_partition = only_columns(plan.predicate, frozenset(schema.partition_keys).__contains__)
    buckets = wanted_buckets(schema, plan.predicate)
    for planned in whole:
        fate = Fate.STATISTICS
        values = dict(zip(schema.partition_keys, planned.partition, strict=True))
        if planned.path in planned_paths:
            fate = Fate.KEPT
        elif of_partition is not None and not may_match(of_partition, {name: exactly(value) for name, value in values.items()}, 1):
            fate = Fate.PARTITION
        elif buckets is not None and planned.bucket not in buckets:
            fate = Fate.BUCKET
        yield PicturedFile(
            partition=_named(schema, planned.partition),
            bucket=planned.bucket,
            size=planned.file.file_size,
            rows=planned.file.row_count,
            fate=fate,
        )


def _named(schema: Schema, values: Sequence[object]) -> str:
    """A partition as people write it; its directory may spell a date as a number."""
    pairs = zip(schema.partition_fields, values, strict=True)
    return "/".join(f"{f.name}={'NULL' if v is None else partition_text(f.type, v, legacy=False)}" for f, v in pairs)
