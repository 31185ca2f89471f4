"""Ten thousand partitions in one statement on a heap of 4 GiB: through Spark, and as a body of rows in no order."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.fix_server import StartServer
from tests.running import ARROW, RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.torture]
PARTITIONS = int(os.environ.get("SLUICE_TEST_PARTITIONS", "10000"))
ROWS = 200 * PARTITIONS


def check(server: RunningServer, table: str, rows: int) -> None:
    [[partitions, files, records]] = server.sql(f"SELECT COUNT(*), SUM(file_count), SUM(record_count) FROM `{table}$partitions`")
    assert (partitions, records) == (PARTITIONS, rows)
    assert files <= PARTITIONS * 1.02, "a partition takes one file, apart from a few whose rows two tasks had"


def most_memory(server: RunningServer) -> int:
    """Peak resident bytes of the server's own process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


@pytest.mark.timeout(3600)
def test_one_insert_into_ten_thousand_partitions(start_server: StartServer) -> None:
    server = start_server(SLUICE_SPARK_DRIVER_MEMORY="4g", SLUICE_COMPACTION_ENABLED="false")
    for table, options in (("t", "'bucket' = '-1'"), ("b", "'bucket' = '2', 'bucket-key' = 'id'")):
        server.sql(f"CREATE TABLE {table} (p INT, id BIGINT, s STRING) PARTITIONED BY (p) WITH ({options})")
    query = f"SELECT CAST(id * 7919 % {PARTITIONS} AS INT), id, CONCAT('row ', id) FROM range({ROWS})"
    server.sql(f"INSERT INTO t {query}", timeout=1800)
    check(server, "t", ROWS)
    server.sql(f"INSERT INTO b {query} WHERE id < {ROWS // 4}", timeout=1800)
    [[records, files]] = server.sql("SELECT SUM(record_count), SUM(file_count) FROM b$partitions")
    assert (records, files) == (ROWS // 4, 2 * PARTITIONS)
    assert most_memory(server) < 3 << 30


@pytest.mark.timeout(3600)
def test_one_body_of_rows_for_ten_thousand_partitions(start_server: StartServer) -> None:
    server = start_server(SLUICE_SPARK_DRIVER_MEMORY="1g", SLUICE_COMPACTION_ENABLED="false")
    server.sql("CREATE TABLE t (p INT, id BIGINT, s STRING) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    draw = np.random.default_rng(1)
    parts = np.concatenate([np.arange(PARTITIONS), draw.integers(0, PARTITIONS, ROWS - PARTITIONS)]).astype(np.int32)
    table = pa.table({"p": parts, "id": np.arange(ROWS), "s": [f"row {i}" for i in range(ROWS)]})
    body = io.BytesIO()
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table, max_chunksize=8192)
    server.append("default.t", body.getvalue(), ARROW)
    check(server, "t", ROWS)
    assert most_memory(server) < 2 << 30
