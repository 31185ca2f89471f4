"""What Spark's Python processes load: none of the server's parsers, catalog or clients, each of which takes longer than most tasks."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F

from lake import Lake
from lake.rewrite.compaction import compact, plan
from model.schema.types import BigIntType, VarCharType
from model.snapshot import CommitKind
from sql.spark.read.deletions import read_by_arrow
from sql.spark.read.reads import _converted, named
from sql.spark.session.pool import SparkPool
from sql.spark.write.bucket import bucket_column
from sql.spark.write.compaction import on_spark
from sql.spark.write.sorting import Order
from sql.spark.write.writes import write
from table.scan.planning.entry_scan import plan_scan
from table.scan.row_ids import read_with_row_ids, with_row_ids
from table.write.snapshot_builder import CommitRequest
from tests.sql.tables import make_table

HEAVY = ("lake", "catalog", "gateway", "sqlglot", "psycopg", "httpx", "rich", "flask")
ROOT = Path(__file__).parents[3]
SOURCES = ("pyspark_sluice.batch", "pyspark_sluice.sink", "pyspark_sluice.stream")


def loaded(code: str, stdin: bytes = b"") -> list[str]:
    """Which of the heavy modules a process has loaded that ran some code."""
    tell = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", tell], cwd=ROOT, input=stdin, capture_output=True, check=True)
    return ran.stdout.decode().split()


@pytest.mark.parametrize(
    "module", [*SOURCES, *sorted(f"sql.spark.executors.{path.stem}" for path in (ROOT / "sql/spark/executors").glob("[a-z]*.py"))]
)
def test_what_may_be_imported_there_is_light(module: str) -> None:
    assert loaded(f"import {module}") == []


@pytest.mark.spark
def test_what_is_sent_there_is_light(pool: SparkPool, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    dumps: Any = cloudpickle.dumps

    def kept(*arguments: Any, **more: Any) -> bytes:
        sent.append(dumps(*arguments, **more))
        return sent[-1]

    monkeypatch.setattr(cloudpickle, "dumps", kept)
    table = make_table(
        lake, options={"bucket": "2", "bucket-key": "v", "file.format": "orc", "compaction.max.file-num": "2"}, id="BIGINT", v="DOUBLE"
    )

    def more_than(count: int) -> int:
        assert len(sent) > count, "nothing was sent to Spark's Python processes"
        return len(sent)

    with pool.lease().running("statement") as session:
        frame = session.sql("SELECT id, CAST(id AS DOUBLE) AS v FROM range(20)")
        for _ in range(4):
            lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(write(session, frame, table)), commit_user="u"))
        seen = more_than(1)  # rows are written, and their buckets found
        latest = table.latest()
        assert latest is not None
        files = plan_scan(table.files, table.schema, latest).files
        assert read_by_arrow(session, table, files).count() == 80
        seen = more_than(seen)
        rows = read_by_arrow(session, table, files, schema=with_row_ids(table.schema), reader=read_with_row_ids)
        assert len(rows.columns) > 2
        seen = more_than(seen)
        frame.select(bucket_column(table.schema)).collect()
        seen = more_than(seen)
        arrange = Order(columns=["id", "v"], strategy="hilbert", text_bytes=8).arrange(1)
        arrange(frame, []).collect()
        seen = more_than(seen)
        text = frame.select(F.col("id").cast("string").alias("t"))
        text.select(_converted(named("t"), VarCharType(length=20), BigIntType(), "t")).collect()
        seen = more_than(seen)
        assert compact(lake.commit, table, plan(table, full=True), rewriter=on_spark(session)).tasks == 2
        more_than(seen)
    load = "import pickle, sys\nfor piece in pickle.load(sys.stdin.buffer): pickle.loads(piece)"
    assert loaded(load, pickle.dumps(sent)) == []
