"""``t$compaction`` and ``t$debt``: what was merged by itself, and what is left to merge."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from catalog.work.maintenance import RUNNING
from lake.inspect.compactions import runs_of
from model.options.table import TABLE_OPTIONS
from sql.system.base import SystemScan, shown_row, system_table
from table.compaction.candidates import CompactionRules, by_bucket, choose
from table.format.rows import binary_row


@system_table(
    "compaction",
    started_at="TIMESTAMP(3) NOT NULL",
    ended_at="TIMESTAMP(3)",
    reason="STRING NOT NULL",
    outcome="STRING NOT NULL",
    snapshot_id="BIGINT",
    tasks="BIGINT NOT NULL",
    files_before="BIGINT NOT NULL",
    files_after="BIGINT NOT NULL",
    bytes_before="BIGINT NOT NULL",
    bytes_after="BIGINT NOT NULL",
    record_count="BIGINT NOT NULL",
    server="STRING NOT NULL",
    message="STRING",
)
def compaction(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The automatic compactions of the table, running ones too, newest first; times are UTC."""
    for run in runs_of(scan.lake, scan.opened):
        ended = None if run.outcome == RUNNING else _utc(run.ended_at)
        yield (
            _utc(run.started_at), ended, run.reason, run.outcome, run.snapshot_id, run.tasks, run.files_before,
            run.files_after, run.bytes_before, run.bytes_after, run.row_count, run.server, run.message,
        )  # fmt: skip


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(dt.UTC).replace(tzinfo=None, microsecond=moment.microsecond // 1000 * 1000)


@system_table(
    "debt",
    partition="STRING",
    bucket="INT NOT NULL",
    file_count="BIGINT NOT NULL",
    small_file_count="BIGINT NOT NULL",
    small_file_bytes="BIGINT NOT NULL",
    mergeable_file_count="BIGINT NOT NULL",
    mergeable_bytes="BIGINT NOT NULL",
    write_only="BOOLEAN NOT NULL",
)
def debt(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Small files of each bucket, and how many of them the rules would merge now."""
    table = scan.opened
    schema, rules = table.schema, CompactionRules.of(table.schema)
    types = [f.type for f in schema.partition_fields]
    write_only = TABLE_OPTIONS.read(schema.options, "write-only")
    for (partition, bucket), files in by_bucket(schema, table.files.live_entries(scan.snapshot)).items():
        small = [entry for entry in files if rules.small(entry)]
        tasks = choose(schema, files, rules, full=False)
        yield (
            shown_row(types, binary_row.decode(types, partition)), bucket, len(files), len(small), sum(e.file.file_size for e in small),
            sum(len(task.inputs) for task in tasks), sum(task.input_bytes for task in tasks), write_only,
        )  # fmt: skip
