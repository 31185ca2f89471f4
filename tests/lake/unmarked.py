"""Files as earlier versions and Spark left them: without ids, and with annotations that do not fit the types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake import Lake
from model.identifier import Identifier
from model.snapshot import CommitKind, Snapshot
from table.compaction.rewrite import as_entry
from table.format.io.file_io import local_path
from table.format.rows.arrow import arrow_schema
from table.write.writer import write_batches
from tests.table.format.test_parquet_footer import as_spark


def append_unmarked(lake: Lake, name: Identifier, rows: Sequence[dict[str, Any]]) -> Snapshot:
    """Append rows in such files."""
    table = lake.open(name)
    with table.write() as write:
        batch = pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(table.schema.fields))
        for new in write_batches(table.files, table.schema, [batch]):
            path = local_path(table.files.data_path(table.schema, as_entry(new, table.schema.bucket)))
            there = pq.read_table(path)
            old = pa.schema([as_spark(field) for field in there.schema]).remove_metadata()
            pq.write_table(there.cast(old), path, store_schema=False, row_group_size=3, write_page_checksum=True)
            with open(path, "rb") as file:
                size = len(file.read())
            write.add([replace(new, file=replace(new.file, file_size=size))])
        return lake.commit(table, write.request(CommitKind.APPEND))
