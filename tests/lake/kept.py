"""What tests of retention share: a table of six commits, and looks at what is left of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

from lake import Lake, LakeTable
from model.schema.change import SetOption
from model.snapshot import CommitKind, Snapshot
from table.retention.expiry import ExpiryRules
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest, everything
from table.write.writer import write_batches
from tests.lake.rewrite.test_compaction import QUEUE, append, batch_of
from tests.sql.tables import make_table

NOW = ExpiryRules(at_least=1, at_most=None, retained=dt.timedelta(0), per_run=None)


def keep(count: int) -> ExpiryRules:
    return replace(NOW, at_least=count, at_most=count)


def go_on() -> None:
    """Nothing stops the work."""


def history(lake: Lake, table: LakeTable) -> list[int]:
    return [s.id for s in lake.snapshots(table)]


def at(table: LakeTable, snapshot: Snapshot) -> list[int]:
    planned = plan_scan(table.files, table.schema, snapshot)
    return [row["id"] for batch in read_batches(table.files, table.schema, planned.files) for row in batch.to_pylist()]


def data_files(table: LakeTable) -> set[str]:
    return {str(path) for path in Path(table.location).rglob("*.parquet")}


def all_files(table: LakeTable) -> set[str]:
    return {str(p.relative_to(table.location)) for p in Path(table.location).rglob("*") if p.is_file()}


def six_commits(lake: Lake) -> LakeTable:
    made = make_table(lake, options=QUEUE, id="INT")
    for n in range(6):
        append(lake, made, [n])
    return made


def overwrite(lake: Lake, table: LakeTable, values: list[int]) -> None:
    written = write_batches(table.files, table.schema, [batch_of(table, values)])
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, adds=tuple(written), overwrite=everything, commit_user="u"))


def with_options(lake: Lake, table: LakeTable, **options: str) -> LakeTable:
    lake.alter_table(table.identifier, [SetOption(key=key, value=value) for key, value in options.items()])
    return lake.open(table.identifier)
