"""Spark's scratch directory alone is full: what it sorts and groups finds no space, while the warehouse and Postgres have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.disks import fill, mounted
from tests.fix_server import StartServer

pytestmark = [pytest.mark.spark, pytest.mark.torture, pytest.mark.timeout(1800)]
_GROUPED = "SELECT count(*), sha2(CAST(id AS STRING), 512) FROM range(1000000) GROUP BY 2"
"""More than 60 MB between its two steps."""


def test_spark_without_room_for_its_scratch_says_so_and_goes_on(tmp_path: Path, start_server: StartServer) -> None:
    data = tmp_path / "server" / "data"
    data.mkdir(parents=True)
    with mounted(data / "spark", megabytes=600) as scratch:
        server = start_server()
        server.sql("CREATE TABLE t (id BIGINT, v STRING)")
        server.sql("INSERT INTO t VALUES (1, 'a')")
        server.wait_for_spark(300)
        server.sql("INSERT INTO t SELECT id, 'b' FROM range(2, 4)")
        before = set(server.table_path("default.t").rglob("*.parquet"))
        fill(scratch / "ballast", leave=8 << 20)
        for text in (f"INSERT INTO t {_GROUPED}", f"INSERT OVERWRITE t {_GROUPED}", _GROUPED):
            refused = server.post(text)
            assert refused.status_code == 507, refused.text[:1000]
            assert "Spark's scratch files" in refused.json()["detail"], refused.text
        assert sorted(row[0] for row in server.sql("SELECT id FROM t")) == [1, 2, 3]
        assert set(server.table_path("default.t").rglob("*.parquet")) == before, "no file of theirs stays"
        server.sql("INSERT INTO t SELECT id, 'c' FROM range(4, 6)")  # needs no scratch, and the same JVM
        (scratch / "ballast").unlink()
        server.sql(f"INSERT INTO t {_GROUPED}")
        assert server.value("SELECT count(*) FROM t") == 5 + 1_000_000
        server.stop()
