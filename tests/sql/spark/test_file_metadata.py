"""METADATA columns of temporary tables over files, as Flink's filesystem connector has them."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from model.errors import InvalidSchema, UnsupportedStatement
from sql.spark.session.pool import SparkPool

pytestmark = pytest.mark.spark
COLUMNS = """id INT, src STRING METADATA FROM 'file.path', `file.name` STRING METADATA, bytes BIGINT METADATA FROM 'file.size' VIRTUAL,
    changed TIMESTAMP_LTZ(3) METADATA FROM 'file.modification-time', s STRING"""


def test_a_row_tells_which_file_it_came_from(lake: Lake, pool: SparkPool, tmp_path: Path) -> None:
    imports = tmp_path / "imports"
    imports.mkdir()
    file = imports / "a b.csv"
    file.write_text("1,x\n2,y\n")
    os.utime(file, ns=(1_700_000_000_123_000_000,) * 2)
    with_clause = f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{imports}')"
    gateway = Gateway(lake, pool, limits=GatewayLimits(local_threads=2, spark_statements=1, import_dirs=(str(imports),)))
    gateway.start()
    try:
        session = gateway.open_session()
        gateway.run(f"CREATE TEMPORARY TABLE f ({COLUMNS}) {with_clause}", session=session).close()
        result = gateway.run("SELECT * FROM f ORDER BY id", session=session)
        assert [c.type.sql() for c in result.columns][3:5] == ["BIGINT", "TIMESTAMP(3) WITH LOCAL TIME ZONE"]
        (one, two) = result.collect()
        assert one[1].startswith("file:/")
        assert one[1].endswith("/a%20b.csv")
        assert one[2:] == ("a%20b.csv", 8, dt.datetime(2023, 11, 14, 22, 13, 20, 123000, dt.UTC), "x")
        assert (two[0], two[2:5]) == (2, one[2:5])
        shown = gateway.run("SHOW CREATE TABLE f", session=session).collect()[0][0]
        gateway.run(f"DROP TABLE f; {shown}", session=session).close()
        described = gateway.run("DESCRIBE f", session=session).collect()
        assert [row[4] for row in described][:3] == [None, "METADATA FROM 'file.path'", "METADATA FROM 'file.name'"]
        for column, says in (
            ("x STRING METADATA FROM 'file.owner'", "file.path, file.name, file.size"),
            ("x STRING METADATA FROM 'file.size'", "is BIGINT, not STRING"),
        ):
            with pytest.raises(InvalidSchema, match=says):
                gateway.run(f"CREATE TEMPORARY TABLE g (id INT, {column}) {with_clause}")
        with pytest.raises(InvalidSchema, match="beside its METADATA columns"):
            gateway.run(f"CREATE TEMPORARY TABLE g (`file.path` STRING METADATA) {with_clause}")
        with pytest.raises(UnsupportedStatement, match="no metadata to show"):
            gateway.run("CREATE TABLE g (id INT, x STRING METADATA FROM 'file.path')")
    finally:
        gateway.close()
