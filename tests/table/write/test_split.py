"""A staged file far larger than its target is written again in the gateway: in bounded memory, whatever its size."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lake import Lake
from sql.spark.write.writes import _split
from table.format.formats import FileFormat
from table.format.rows.arrow import arrow_schema
from table.format.rows.stats import StatsModes
from table.write.data_file import describe_parquet
from tests.sql.tables import make_table

GROUPS, ROWS, WIDTH = 12, 160_000, 128


def test_a_split_holds_no_whole_file(lake: Lake) -> None:
    table = make_table(lake, options={"bucket": "-1", "target-file-size": "64 mb"}, id="BIGINT", v="BYTES")
    Path(table.location).mkdir(parents=True, exist_ok=True)
    path, schema = f"{table.location}/part-00000-x.parquet", arrow_schema(table.schema.fields, with_ids=True)
    with pq.ParquetWriter(path, schema, use_dictionary=False, store_schema=False) as writer:
        for group in range(GROUPS):
            values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(WIDTH), ROWS, [None, pa.py_buffer(os.urandom(WIDTH * ROWS))])
            numbers = pa.array(range(group * ROWS, (group + 1) * ROWS), pa.int64())
            writer.write_table(pa.table({"id": numbers, "v": values.cast(pa.binary())}, schema=schema), row_group_size=ROWS)
    modes, before = StatsModes(table.schema), pa.default_memory_pool()
    file = describe_parquet(table.files, table.schema, path, modes=modes, created_millis=7)
    assert file.file_size > 230 << 20
    del values, numbers
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        parts = _split(table, FileFormat.of(table.schema), modes, path, file)
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 160 << 20, pool.max_memory() >> 20
    assert len(parts) == 4
    assert not Path(path).exists()
    assert [n for part, _ in parts for n in pq.read_table(part, columns=["id"]).column(0).to_pylist()] == list(range(GROUPS * ROWS))
