"""The examples of the pages on streams and on Spark, run as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.fix_server import StartServer
from tests.following import Follower
from tests.running import RunningServer, children_of
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)


@pytest.mark.torture
@pytest.mark.spark
def test_the_examples_of_both_pages(spark: SparkSession, start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(SLUICE_SPARK_DRIVER_MEMORY="1g")
    server.wait_for_spark()
    tables, expressions, join, incremental = blocks("streaming.md", "sql")
    server.sql(tables)
    with Follower(server.url, expressions) as rows, Follower(server.url, join) as joined:
        assert server.sql(incremental) == [[2]]
        assert sorted(map(str, rows.rows(2, seconds=90))) == [
            "{'id': 1, 'city': 'ROME', 'miles': 4.34}",
            "{'id': 2, 'city': 'OSLO', 'miles': 5.58}",
        ]
        assert {row["id"]: row["country"] for row in joined.rows(2, seconds=90)} == {1: "IT", 2: "NO"}
        server.sql("INSERT INTO trips VALUES (3, 'Rome', 1)")
        assert rows.rows(1, seconds=30)[0]["id"] == joined.rows(1, seconds=30)[0]["id"] == 3
    limited = "SELECT id + 1 AS n FROM trips /*+ OPTIONS('scan.snapshot-id' = '1') */ LIMIT 2"
    with Follower(server.url, limited) as rows:
        assert sorted(row["n"] for row in rows.rows(2, seconds=60)) == [2, 3]
        assert rows.ended.wait(20)
    _refused(server.url, "SELECT city FROM trips ORDER BY city")
    _refused(server.url, "SELECT city, count(*) AS n FROM trips GROUP BY city")
    server.sql("CREATE TABLE copied (id BIGINT, city STRING, km INT); CREATE TABLE followed (id BIGINT NOT NULL, city STRING, km INT)")
    known = {"spark": spark, "uri": server.url, "checkpoint": str(tmp_path / "checkpoint")}
    batch, stream = blocks("spark.md", "python")
    exec(batch, known)
    assert server.sql("SELECT count(*) AS n FROM copied") == [[3]]
    assert known["old"].count() == 1  # type: ignore[attr-defined]
    exec(stream, known)
    assert server.sql("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM followed") == [[3, 3]]
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) >= 2, "two rows a batch"
    files = sorted((server.warehouse / "default.db" / "followed").rglob("*.parquet"))
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink()
    exec(stream, known)  # Spark repeats its last batch
    assert server.sql("SELECT count(*) AS n FROM followed") == [[3]]
    assert sorted((server.warehouse / "default.db" / "followed").rglob("*.parquet")) == files, "a repeated batch leaves no files"
    users = {user for (user,) in server.sql("SELECT commit_user FROM followed$snapshots")}
    assert users == {f"sluice-spark-{json.loads((tmp_path / 'checkpoint' / 'metadata').read_text())['id']}"}
    overwriting = spark.range(2).selectExpr("id", "'x' AS city").write.format("sluice").option("uri", server.url)
    overwriting.mode("overwrite").save("default.followed")
    assert server.sql("SELECT id, city, km FROM followed ORDER BY id") == [[0, "x", None], [1, "x", None]]
    _ends(server)


def _refused(url: str, statement: str) -> None:
    with Follower(url, statement) as rows:
        if rows.response.status_code == 200:
            assert "$error" in rows.rows(1, seconds=60)[0], statement
        else:
            assert rows.response.status_code == 400, rows.response.text


def _ends(server: RunningServer) -> None:
    """Nobody reads any more, and so no query runs."""

    def left() -> list[psutil.Process]:
        return children_of(server.process, lambda process: any("python_streaming_source_runner" in word for word in process.cmdline()))

    assert eventually(lambda: not left()), f"streams went on without a reader: {left()}"
