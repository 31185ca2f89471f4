"""Files of which rows are deleted, read on Spark: joined in it, or by Arrow where it numbers no rows."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from lake import Lake
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.schema.types import ArrayType, Field, IntType
from model.snapshot import CommitKind
from sql.spark.read.reads import dataframe
from sql.spark.session.pool import SparkPool
from sql.spark.write.writes import write
from table.scan.planning.entry_scan import plan_scan
from table.write.snapshot_builder import CommitRequest
from tests.short import short
from tests.table.vectors import with_deleted

pytestmark = pytest.mark.spark
TYPES = ["STRING", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)", "TIME(3)", "DECIMAL(9, 2)", "DATE"]
VALUES = (
    "'v', TIMESTAMP_NTZ '2024-01-02 03:04:05.006', TIMESTAMP '2024-01-02 03:04:05.006', CAST('03:04:05' AS TIME), 1.25BD, DATE '2024-01-02'"
)


@pytest.mark.parametrize("how", short(["joined", "orc", "not counted", "very many"], ["orc", "very many"]))
def test_spark_reads_the_rows_that_are_left(pool: SparkPool, lake: Lake, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "very many":
        monkeypatch.setattr("sql.spark.read.deletions._MOST_JOINED", 2)
    schema = new_schema(
        [
            column("id", "BIGINT"),
            *(column(f"c{n}", type_) for n, type_ in enumerate(TYPES)),
            Field(id=-1, name="_metadata", type=ArrayType(element=IntType())),
        ],
        options={"bucket": "-1", "file.format": "orc" if how == "orc" else "parquet"},
    )
    name = Identifier("default", f"deleted_{how.replace(' ', '_')}")
    lake.create_table(name, schema)
    table = lake.open(name)
    with pool.lease().running("statement") as session:
        for start in (0, 5000):
            frame = session.sql(f"SELECT id, {VALUES}, ARRAY(1) FROM range({start}, {start + 5000}, 1, 1)").toDF(*schema.field_names)
            lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(write(session, frame, table)), commit_user="u"))
        latest = table.latest()
        assert latest is not None
        files = plan_scan(table.files, schema, latest).files
        whole = dataframe(session, table, plan_scan(table.files, schema, latest)).where("id > 5").collect()
        gone = {7, 4096, 4999, 5000, 9000}
        rows: dict[str, list[int]] = {}
        for one in files:
            first = 0 if one is files[0] else 5000
            rows[one.file.file_name] = sorted(n - first for n in gone if first <= n < first + 5000)
        made = with_deleted(table.files, replace(latest, id=latest.id + 1, uuid=str(uuid4())), rows, told=how != "not counted")
        plan = plan_scan(table.files, schema, made)
        found = dataframe(session, table, plan)
        assert found.columns == list(schema.field_names)
        left = sorted(row for row in whole if row.id not in gone)
        assert sorted(found.where("id > 5").collect()) == left
        assert found.count() == 9995
        assert found.where("id BETWEEN 4990 AND 5001").count() == 10
