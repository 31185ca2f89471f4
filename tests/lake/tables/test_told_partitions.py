"""Files whose own partition columns are held against their manifest before Spark reads them, which shows what the files have."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from lake import Lake
from lake.register.lost import remove_unexisting_files
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.scan.checks.verify import forget, sound
from table.scan.planning.entry_scan import plan_scan
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.lake.kept import go_on

T = Identifier("default", "t")


@pytest.mark.parametrize("format_", ["parquet", "orc"])
@pytest.mark.parametrize(
    ("type_", "value", "other"),
    [
        ("INT", 7, 8), ("TINYINT", -1, 1), ("BIGINT", 1 << 40, 0), ("BOOLEAN", True, False), ("STRING", "", " "), ("STRING", "x", "y"),
        ("STRING", "ü" * 90, "u" * 90), ("STRING", None, "x"), ("STRING", "x", None), ("DATE", dt.date(2024, 2, 29), dt.date(1, 1, 1)),
        ("INT", None, 0), ("DECIMAL(9, 2)", Decimal("1.50"), None), ("TIMESTAMP(3)", dt.datetime(2024, 1, 1, 1), None),
        ("CHAR(4)", "ab", None),
    ],
)  # fmt: skip
def test_spark_reads_files_that_tell_their_own_partition(lake: Lake, type_: str, value: object, other: object, format_: str) -> None:
    columns = [column("id", "INT"), column("p", type_)]
    lake.create_table(T, new_schema(columns, partition_keys=["p"], options={"bucket": "-1", "file.format": format_}))
    table = lake.open(T)
    schema = arrow_schema(table.schema.fields)
    (file,) = write_batches(table.files, table.schema, [pa.RecordBatch.from_pydict({"id": [1], "p": [value]}, schema=schema)])
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=(file,), commit_user="u"))
    (planned,) = plan_scan(table.files, table.schema, table.latest()).files
    forget()
    assert sound(table.files, [planned], table.schema_at) == [True]
    forget()
    assert sound(table.files, [replace(planned, partition=(other,))], table.schema_at) == [False]


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_deep_check_tells_files_whose_rows_are_of_another_partition(lake: Lake, format_: str, is_ours: bool) -> None:
    """And nothing takes them for lost: their rows are read, under the manifest's partition."""
    options = {"bucket": "-1", "file.format": format_}
    lake.create_table(T, new_schema([column("id", "INT"), column("p", "STRING")], partition_keys=["p"], options=options))
    table = lake.open(T)
    moved, other = (
        next(iter(write_batches(table.files, table.schema, [pa.record_batch({"id": pa.array([id_], pa.int32()), "p": [p]})])))
        for id_, p in ((1, "x"), (2, "y"))
    )
    paths = [Path(table.location) / f"p={p}" / "bucket-0" / moved.file.file_name for p in ("x", "y")]
    paths[0].rename(paths[1])
    if not is_ours:
        moved = replace(moved, file=replace(moved.file, embedded_file_index=None))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=(replace(moved, partition=other.partition), other), commit_user="u"))

    def faults(*, deep: bool) -> list[tuple[str, str]]:
        found = lake.check_table(table, deep=deep, threads=1, checked=lambda *_: None)
        return [(fault.file, fault.problem[:43]) for fault in found]

    assert faults(deep=False) == []
    assert faults(deep=True) == [(str(paths[1]), "has rows of another partition in column p t")]
    assert remove_unexisting_files(lake, table, dry_run=True, deep=True, threads=1, check=go_on) == ()
    forget()
    planned = plan_scan(table.files, table.schema, table.latest()).files
    assert sound(table.files, planned, table.schema_at) == [one.file.file_name != moved.file.file_name for one in planned]
