"""The watermark of a job's snapshot comes from its rows, whatever statistics the table keeps of them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from lake import Lake
from model.snapshot import CommitKind
from sql.spark.streaming.batch import Batch, batch_watermark
from table.format.rows.cast import fit
from table.write.event_time import telling_time
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.sql.tables import make_table

TIMES = [dt.datetime(2026, 1, 1, 12), dt.datetime(2026, 1, 1, 13), None]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata.stats-mode": "none"},
        {"metadata.stats-mode": "counts", "metadata.stats-dense-store": "false"},
        {"fields.at.stats-mode": "none"},
        {"metadata.stats-keep-first-n-columns": "1"},
    ],
)
def test_a_batch_has_the_watermark_of_its_rows(lake: Lake, options: dict[str, str]) -> None:
    table = make_table(lake, "t", options={"bucket": "-1", **options}, id="INT", at="TIMESTAMP(3)")
    rows = fit(pa.record_batch({"id": pa.array([1, 2, 3], pa.int32()), "at": pa.array(TIMES, pa.timestamp("ms"))}), table.schema)
    files = write_batches(table.files, telling_time(table.schema, "at"), [rows])
    batch = Batch(number=0, files=files, progress=None, schema=table.schema, rowtime=("at", 60_000))
    assert batch_watermark(batch) == dt.datetime(2026, 1, 1, 12, 59, tzinfo=dt.UTC).timestamp() * 1000
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(files), commit_user="job"))
    assert sum(entry.file.row_count for entry in table.files.live_entries(table.latest())) == 3


@pytest.mark.parametrize(("told", "expected"), [(None, None), ("2026-01-01T11:00:00.000Z", 1_767_265_200_000)])
def test_a_row_with_a_time_far_ahead_gives_the_table_no_watermark(lake: Lake, told: str | None, expected: int | None) -> None:
    table = make_table(lake, "t", options={"bucket": "-1"}, id="INT", at="TIMESTAMP(3)")
    times = pa.array([dt.datetime(2026, 1, 1, 12), dt.datetime(9998, 12, 31)], pa.timestamp("ms"))
    rows = fit(pa.record_batch({"id": pa.array([1, 2], pa.int32()), "at": times}), table.schema)
    files = write_batches(table.files, telling_time(table.schema, "at"), [rows])
    progress = {"eventTime": {"watermark": told}} if told else None
    batch = Batch(number=1, files=files, progress=progress, schema=table.schema, rowtime=("at", 60_000))
    assert batch_watermark(batch) == expected
