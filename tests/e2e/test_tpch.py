"""TPC-H: loaded through every endpoint, all 22 queries give what plain Spark gives on the source files.

At scale 0.1 in `make torture`; what `make test` has of it are fewer rows of the same tables, at scale 0.01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.client import Client
from tests.fix_data import TPCH_SCALE, TPCH_TABLES, tpch_tables
from tests.running import PARQUET, RunningServer
from tests.short import is_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = sorted((Path(__file__).parent / "tpch").glob("q*.sql"))
SHORT = ("q09", "q13")
"""Those of `make test`: joins of each kind, subqueries, and sorts of what is grouped."""
OPTIONS = {
    "lineitem": "WITH ('bucket'='4','bucket-key'='l_orderkey')",
    "orders": "WITH ('bucket'='-1')",
    "partsupp": "WITH ('bucket'='2','bucket-key'='ps_partkey,ps_suppkey','file.format'='orc')",
}


def columns(file: Path) -> str:
    """The columns of a source file as Flink spells them."""
    kinds = {pa.int64(): "BIGINT", pa.int32(): "INT", pa.decimal128(15, 2): "DECIMAL(15,2)", pa.date32(): "DATE"}
    return ", ".join(f"{field.name} {kinds.get(field.type, 'STRING')} NOT NULL" for field in pq.read_schema(file))


def chunks(body: bytes) -> Callable[[], Iterator[bytes]]:
    """The body as the client command sends it."""
    return lambda: (body[start : start + (1 << 20)] for start in range(0, len(body), 1 << 20))


@pytest.fixture(scope="module")
def tpch() -> Path:
    """Directory with the source files."""
    return tpch_tables(TPCH_SCALE if is_whole() else "0.01")


@pytest.fixture(scope="module")
def tpch_server(server: RunningServer, tpch: Path) -> Iterator[RunningServer]:
    """The shared server with a database ``tpch``; half of its tables come through the rows endpoint, half by INSERT from files."""
    server.sql("CREATE DATABASE tpch")
    client = Client(server.url)
    for number, table in enumerate(TPCH_TABLES):
        file = tpch / f"{table}.parquet"
        server.sql(f"CREATE TABLE tpch.{table} ({columns(file)}) {OPTIONS.get(table, '')}")
        if number % 2:
            source = f"CREATE TEMPORARY TABLE source ({columns(file)}) WITH ('connector'='filesystem','path'='{file}','format'='parquet')"
            server.sql(f"{source}; INSERT INTO tpch.{table} SELECT * FROM source")
        else:
            body = file.read_bytes()
            answer = client.append(f"tpch.{table}", chunks(body), content_type=PARQUET, length=len(body))
            assert answer["rows"] == pq.read_metadata(file).num_rows
    client.close()
    yield server
    server.sql("DROP DATABASE tpch CASCADE")


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tpch: Path) -> SparkSession:
    """Plain Spark with the source files as views."""
    session = spark.newSession()
    for table in TPCH_TABLES:
        session.read.parquet(str(tpch / f"{table}.parquet")).createOrReplaceTempView(table)
    return session


@pytest.mark.parametrize("table", TPCH_TABLES)
def test_every_row_is_there(tpch_server: RunningServer, tpch: Path, table: str) -> None:
    source = pq.read_table(tpch / f"{table}.parquet")
    order = [(name, "ascending") for name in source.column_names]
    ours = tpch_server.arrow(f"SELECT * FROM tpch.{table}")
    source = source.cast(ours.schema)
    assert ours.sort_by(order).equals(source.sort_by(order))


@pytest.mark.parametrize(
    "query", [pytest.param(path, id=path.stem, marks=[] if path.stem in SHORT else pytest.mark.torture) for path in QUERIES]
)
def test_same_rows_as_plain_spark(tpch_server: RunningServer, plain: SparkSession, query: Path) -> None:
    text = query.read_text()
    expected = plain.sql(text).toArrow()
    found = tpch_server.arrow(f"USE tpch; {text}")
    assert found.column_names == expected.column_names
    assert found.num_rows == expected.num_rows > 0
    assert found.to_pylist() == expected.to_pylist()
