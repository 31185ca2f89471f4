"""A MAP as Java's clients write it by `map.storage-layout` = `shared-shredding`: values of one key in a column."""

from __future__ import annotations

import io
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lake import Lake
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches

_SHREDDED = pa.struct([("__field_mapping", pa.list_(pa.int32())), ("__col_0", pa.int32()), ("__overflow", pa.map_(pa.int32(), pa.int32()))])


def commit_shredded(lake: Lake, name: Identifier) -> None:
    """Add to a table of ``id INT, m MAP<STRING, INT>`` a file of ours with the row 1, and one of Java's with the rows 2 and 4."""
    table = lake.open(name)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "m": [("k", 1)]}], schema=arrow_schema(table.schema.fields))
    (ours,) = write_batches(table.files, table.schema, [batch])
    out, is_orc = io.BytesIO(), ours.file.file_name.endswith(".orc")
    shredded = pa.array([{"__field_mapping": [0], "__col_0": 2, "__overflow": None}] * 2, _SHREDDED)
    (orc if is_orc else pq).write_table(pa.table({"id": pa.array([2, 4], pa.int32()), "m": shredded}), out)
    data = out.getvalue()
    file = replace(
        ours.file,
        file_name=f"data-{uuid4()}-0.{'orc' if is_orc else 'parquet'}",
        file_size=len(data),
        row_count=2,
        value_stats_cols=(),
        embedded_file_index=None,
        extra_files=(),
    )
    table.files.io.add(table.files.layout.data_file(table.schema, (), 0, file.file_name), data)
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=(ours, replace(ours, file=file)), commit_user="java"))
