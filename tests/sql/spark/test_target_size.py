"""The first Spark insert of a table knows nothing of its rows' size, and meets 'target-file-size' all the same."""

from __future__ import annotations

import pytest

from lake import Lake
from model.snapshot import CommitKind
from sql.spark.session.pool import SparkPool
from sql.spark.write.writes import write
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest
from tests.sql.tables import make_table

pytestmark = pytest.mark.spark
TARGET = 256 << 10


def test_oversized_files_of_a_first_insert_are_split_in_order(lake: Lake, pool: SparkPool) -> None:
    options = {"bucket": "1", "bucket-key": "id", "target-file-size": "256 kb"}
    table = make_table(lake, options=options, id="BIGINT", s="STRING", at="TIMESTAMP(6)", m="TIMESTAMP(3)")
    with pool.lease().running("statement") as session:
        frame = session.sql(
            "SELECT id, sha2(CAST(id AS STRING), 512) AS s, CAST(timestamp_micros(id) AS TIMESTAMP_NTZ) AS at, "
            "CAST(timestamp_millis(id) AS TIMESTAMP_NTZ) AS m FROM range(12000) ORDER BY id DESC"
        )
        files = write(session, frame, table)
    sizes = [new.file.file_size for new in files]
    assert len(sizes) > 2
    assert all(0.7 * TARGET <= size <= 1.3 * TARGET for size in sizes[:-1]), sizes
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(files), commit_user="u"))
    plan = plan_scan(table.files, table.schema, table.latest())
    rows = [row for batch in read_batches(table.files, table.schema, plan.files) for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == list(range(11_999, -1, -1))
    assert all(row["at"].microsecond == row["id"] and row["m"].microsecond == row["id"] % 1000 * 1000 for row in rows)
    assert [new.file.min_sequence_number for new in files] == [sum(n.file.row_count for n in files[:i]) for i in range(len(files))]
