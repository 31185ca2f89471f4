"""The core of what a user does, on real flights: load, query, insert from queries, overwrite; on every kind of Spark master."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.conftest import MASTERS
from tests.running import Refused, RunningServer
from tests.short import short

pytestmark = pytest.mark.spark
BY_MASTER = pytest.mark.parametrize("any_server", short(MASTERS, ["local"]), indirect=True)
"""What a standalone master is given in `make test` is in `tests/e2e/test_cluster.py`."""

COLUMNS = {
    "year": "INT",
    "month": "INT",
    "day": "INT",
    "dep_time": "INT",
    "sched_dep_time": "INT",
    "dep_delay": "INT",
    "arr_time": "INT",
    "sched_arr_time": "INT",
    "arr_delay": "INT",
    "carrier": "STRING",
    "flight": "INT",
    "tailnum": "STRING",
    "origin": "STRING",
    "dest": "STRING",
    "air_time": "INT",
    "distance": "INT",
    "hour": "INT",
    "minute": "INT",
    "time_hour": "TIMESTAMP(0)",
}
SPELLED = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())


def as_arrow(flights: pd.DataFrame) -> pa.Table:
    """The flights with the types of the table; missing numbers are NULL."""
    kinds = {"INT": pa.int32(), "STRING": pa.string(), "TIMESTAMP(0)": pa.timestamp("ms")}
    frame = flights.assign(time_hour=pd.to_datetime(flights["time_hour"].str.replace("Z", "")))
    fields = [pa.field(name, kinds[kind]) for name, kind in COLUMNS.items()]
    return pa.Table.from_pandas(frame[list(COLUMNS)], schema=pa.schema(fields), preserve_index=False)


@pytest.fixture
def database(any_server: RunningServer) -> Iterator[str]:
    name = f"core{uuid4().hex[:12]}"
    any_server.sql(f"CREATE DATABASE {name}")
    yield name
    any_server.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def loaded(any_server: RunningServer, database: str, flights: pd.DataFrame) -> str:
    """Name of a table that holds all flights, sent as one Parquet body."""
    body = io.BytesIO()
    pq.write_table(as_arrow(flights), body)
    table = f"{database}.flights"
    any_server.sql(f"CREATE TABLE {table} ({SPELLED}) PARTITIONED BY (`month`) WITH ('bucket'='2','bucket-key'='tailnum')")
    assert any_server.append(table, body.getvalue())["rows"] == 336_776
    return table


@BY_MASTER
def test_flights_loaded_and_queried_as_pandas_does(any_server: RunningServer, loaded: str, flights: pd.DataFrame) -> None:
    assert any_server.value(f"SELECT COUNT(*) FROM {loaded}") == 336_776
    ours = any_server.arrow(f"SELECT * FROM {loaded}").select(list(COLUMNS)).sort_by([(name, "ascending") for name in COLUMNS])
    theirs = as_arrow(flights).sort_by([(name, "ascending") for name in COLUMNS])
    assert ours.equals(theirs.cast(ours.schema))

    found = any_server.sql(
        f"SELECT carrier, COUNT(*), AVG(arr_delay), MAX(distance) FROM {loaded} WHERE `month` IN (6, 7) GROUP BY carrier ORDER BY carrier"
    )
    summer = flights[flights["month"].isin([6, 7])].groupby("carrier")
    expected = summer.agg(n=("flight", "size"), delay=("arr_delay", "mean"), far=("distance", "max")).reset_index()
    assert [row[:2] + row[3:] for row in found] == expected[["carrier", "n", "far"]].to_numpy().tolist()
    assert [row[2] for row in found] == pytest.approx(expected["delay"].tolist())


@BY_MASTER
def test_insert_from_a_query_keeps_its_order_and_its_buckets(any_server: RunningServer, loaded: str, database: str) -> None:
    queue = f"{database}.late"
    any_server.sql(f"CREATE TABLE {queue} (n BIGINT, carrier STRING, arr_delay INT) WITH ('bucket'='4','bucket-key'='carrier')")
    numbered = "ROW_NUMBER() OVER (ORDER BY arr_delay, flight, time_hour, dest, tailnum) AS n"
    query = f"SELECT {numbered}, carrier, arr_delay FROM {loaded} WHERE arr_delay > 60"
    ((rows, _),) = any_server.sql(f"INSERT INTO {queue} {query} ORDER BY n")
    assert rows == any_server.value(f"SELECT COUNT(*) FROM {loaded} WHERE arr_delay > 60")
    read = any_server.arrow(f"SELECT n, carrier FROM {queue}").to_pandas()
    assert len(read) == rows
    assert read.groupby("carrier")["n"].apply(lambda n: n.is_monotonic_increasing).all()
    assert read["n"].nunique() == rows


@BY_MASTER
def test_overwrite_a_partition(any_server: RunningServer, loaded: str) -> None:
    others = any_server.value(f"SELECT COUNT(*) FROM {loaded} WHERE `month` <> 2")
    columns = ", ".join(f"`{name}`" for name in COLUMNS if name != "month")
    any_server.sql(f"INSERT OVERWRITE {loaded} PARTITION (`month` = 2) SELECT {columns} FROM {loaded} WHERE `month` = 2 AND carrier = 'UA'")
    assert any_server.value(f"SELECT COUNT(*) FROM {loaded} WHERE `month` <> 2") == others
    assert any_server.sql(f"SELECT DISTINCT carrier FROM {loaded} WHERE `month` = 2") == [["UA"]]
    first = any_server.value(f"SELECT COUNT(*) FROM {loaded} /*+ OPTIONS('scan.snapshot-id'='1') */")
    assert first == 336_776


@BY_MASTER
def test_statement_set_lands_together_or_not_at_all(any_server: RunningServer, database: str) -> None:
    for name in ("a", "b"):
        any_server.sql(f"CREATE TABLE {database}.{name} (x INT NOT NULL)")
    both = "EXECUTE STATEMENT SET BEGIN INSERT INTO {0}.a SELECT 1; INSERT INTO {0}.b SELECT {1}; END"
    any_server.sql(both.format(database, "2"))
    with pytest.raises(Refused):
        any_server.sql(both.format(database, "CAST(1 / 0 AS INT)"))
    assert any_server.sql(f"SELECT * FROM {database}.a") == [[1]]
    assert any_server.sql(f"SELECT * FROM {database}.b") == [[2]]
    any_server.sql(f"EXECUTE STATEMENT SET BEGIN INSERT INTO {database}.a SELECT 3; INSERT INTO {database}.a VALUES (4), (5); END")
    assert any_server.sql(f"SELECT * FROM {database}.a") == [[1], [3], [4], [5]]
    assert any_server.value(f"SELECT COUNT(*) FROM {database}.a /*+ OPTIONS('scan.snapshot-id'='2') */") == 4
    again = f"EXECUTE STATEMENT SET BEGIN INSERT INTO {database}.a SELECT 6; INSERT OVERWRITE {database}.a SELECT 7; END"
    with pytest.raises(Refused, match="only INSERT INTO can be repeated"):
        any_server.sql(again)


@BY_MASTER
def test_a_slow_statement_is_canceled_and_others_go_on(any_server: RunningServer) -> None:
    any_server.wait_for_spark()
    begin = time.monotonic()
    answer = httpx.post(
        f"{any_server.url}/sql",
        params={"timeout": 3},
        content=b"SELECT COUNT(*) FROM range(0, 1000000000) a CROSS JOIN range(0, 1000) b WHERE a.id * b.id % 7 = 3",
        timeout=100,
    )
    assert answer.status_code == 408, answer.text
    assert time.monotonic() - begin < 60
    begin = time.monotonic()
    assert any_server.value("SELECT SUM(id) FROM range(0, 100)") == 4950
    assert time.monotonic() - begin < 120
