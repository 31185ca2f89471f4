"""A file read whole is held against its schema and its manifest's statistics: a changed name, type, scale or value is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.schema.schema import Schema, column, new_schema
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import DataFile
from table.format.store import TableFiles
from table.retention.check import ExpectedFile, fault_of
from table.scan.checks.columns import column_fault
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from tests.table.scan.test_files import insert

ROWS: list[dict[str, Any]] = [{"amount": n, "n": Decimal(n) / 4, "s": f"text {n}", "t": None} for n in range(10)]
COLUMNS = [column("amount", "BIGINT"), column("n", "DECIMAL(9, 2)"), column("s", "STRING"), column("t", "TIMESTAMP(3)")]


def written(tmp_path: Path, format_: str = "parquet") -> tuple[Schema, PlannedFile]:
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema(COLUMNS, options={"bucket": "-1", "file.format": format_, "parquet.enable.dictionary": "false"})
    (planned,) = plan_scan(files, schema, insert(files, schema, None, ROWS)).files
    return schema, planned


def fault(schema: Schema, planned: PlannedFile) -> str | None:
    file = planned.file
    size = Path(planned.path).stat().st_size
    expected = ExpectedFile(path=planned.path, size=size, rows=file.row_count, file=file, schema=schema)
    assert fault_of(LocalFileIO(), expected, deep=False) is None
    return fault_of(LocalFileIO(), expected, deep=True)


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_what_was_written_has_no_fault(tmp_path: Path, format_: str) -> None:
    assert fault(*written(tmp_path, format_)) is None


def test_a_name_that_was_changed_in_the_footer_is_told(tmp_path: Path) -> None:
    schema, planned = written(tmp_path)
    path, told = Path(planned.path), []
    kept = path.read_bytes()
    for at in (at for at in range(len(kept)) if kept.startswith(b"amount", at)):
        path.write_bytes(kept[:at] + b"bmount" + kept[at + 6 :])
        told.append(fault(schema, planned))
    assert "lacks column amount, of which its manifest tells 10 values" in told
    nothing = replace(planned, file=replace(planned.file, value_stats_cols=()))
    path.write_bytes(kept.replace(b"amount", b"bmount"))
    assert fault(schema, nothing) == "has a column 'bmount' and none called amount"


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_other_values_than_the_manifest_tells_are_told(tmp_path: Path, format_: str) -> None:
    schema, planned = written(tmp_path, format_)
    other = written(tmp_path / "other", format_)[1]
    rows = [{**row, "amount": row["amount"] + 100} for row in ROWS]
    files = TableFiles(LocalFileIO(), str(tmp_path / "more"))
    (more,) = plan_scan(files, schema, insert(files, schema, None, rows)).files
    # Other writers know no checksum, and a file that was written under another name would tell it.
    foreign = replace(other.file, embedded_file_index=None, file_name=more.file.file_name)
    assert fault(schema, replace(more, file=foreign)) == "has values in column amount that are outside of what its manifest tells"
    assert fault(schema, replace(planned, file=replace(more.file, file_name=planned.file.file_name))) is not None


def test_an_orc_file_with_another_value_between_its_bounds_is_told(tmp_path: Path) -> None:
    """By its checksum alone: rows, NULLs and bounds are what the manifest tells."""
    schema, planned = written(tmp_path, "orc")
    rows = [{**row, "amount": 4 if row["amount"] == 5 else row["amount"]} for row in ROWS]
    files = TableFiles(LocalFileIO(), str(tmp_path / "more"))
    (more,) = plan_scan(files, schema, insert(files, schema, None, rows)).files
    assert fault(schema, replace(more, file=replace(planned.file, embedded_file_index=None))) is None
    assert fault(schema, replace(more, file=planned.file)) == "has other bytes than were written (its checksum differs)"


FOUND: dict[str, tuple[Sequence[tuple[str, pa.DataType]], str | None]] = {
    "as it is": ([("amount", pa.int64()), ("n", pa.decimal128(9, 2)), ("s", pa.string()), ("t", pa.timestamp("ms"))], None),
    "as others write it": ([("amount", pa.int32()), ("n", pa.int64()), ("s", pa.binary()), ("t", pa.timestamp("us", "UTC"))], None),
    "a lacking column": ([("amount", pa.int64()), ("n", pa.decimal128(9, 2)), ("s", pa.string())], None),
    "row tracking": ([("amount", pa.int64()), ("n", pa.decimal128(9, 2)), ("s", pa.string()), ("_ROW_ID", pa.int64())], None),
    "a scale": ([("amount", pa.int64()), ("n", pa.decimal128(9, 3))], "has decimal128(9, 3) in column n, which is DECIMAL(9, 2)"),
    "a sign": ([("amount", pa.uint64())], "has uint64 in column amount, which is BIGINT"),
    "a kind": ([("amount", pa.string())], "has string in column amount, which is BIGINT"),
}


@pytest.mark.parametrize("case", FOUND)
def test_columns_are_those_of_the_schema(tmp_path: Path, case: str) -> None:
    columns, problem = FOUND[case]
    schema, planned = written(tmp_path)
    file: DataFile = replace(planned.file, value_stats_cols=())
    assert column_fault(pa.schema(columns), file, schema) == problem


def test_a_column_that_a_file_taken_over_lacks_is_no_fault(tmp_path: Path) -> None:
    schema, planned = written(tmp_path)
    pq.write_table(pa.table({"amount": range(10), "old": range(10)}), planned.path)
    taken = replace(planned, file=replace(planned.file, value_stats_cols=(), external_path=planned.path))
    assert fault(schema, taken) is None
