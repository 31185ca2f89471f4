"""Files whose own partition columns are held against their manifest before Spark reads them, which shows what the files have."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from lake import Lake
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.scan.checks.verify import forget, sound
from table.scan.planning.entry_scan import plan_scan
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches

T = Identifier("default", "t")


@pytest.mark.parametrize(
    ("type_", "value", "other"),
    [
        ("INT", 7, 8), ("TINYINT", -1, 1), ("BIGINT", 1 << 40, 0), ("BOOLEAN", True, False), ("STRING", "", " "), ("STRING", "x", "y"),
        ("STRING", "ü" * 90, "u" * 90), ("STRING", None, "x"), ("STRING", "x", None), ("DATE", dt.date(2024, 2, 29), dt.date(1, 1, 1)),
        ("INT", None, 0), ("DECIMAL(9, 2)", Decimal("1.50"), None), ("TIMESTAMP(3)", dt.datetime(2024, 1, 1, 1), None),
        ("CHAR(4)", "ab", None),
    ],
)  # fmt: skip
def test_spark_reads_files_that_tell_their_own_partition(lake: Lake, type_: str, value: object, other: object) -> None:
    columns = [column("id", "INT"), column("p", type_)]
    lake.create_table(T, new_schema(columns, partition_keys=["p"], options={"bucket": "-1"}))
    table = lake.open(T)
    schema = arrow_schema(table.schema.fields)
    (file,) = write_batches(table.files, table.schema, [pa.RecordBatch.from_pydict({"id": [1], "p": [value]}, schema=schema)])
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=(file,), commit_user="u"))
    (planned,) = plan_scan(table.files, table.schema, table.latest()).files
    forget()
    assert sound(table.files, [planned], table.schema_at) == [True]
    forget()
    assert sound(table.files, [replace(planned, partition=(other,))], table.schema_at) == [False]
