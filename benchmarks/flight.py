"""Results of every door into pandas beside Spark's own, and short statements by one and by many clients."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pandas as pd
import pyarrow as pa

from benchmarks.page import Table
from benchmarks.run import Run
from benchmarks.server import BenchServer
from benchmarks.timing import at_once, in_turns

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection
    from pyspark.sql import SparkSession

ROUNDS = 3
CLIENTS = 32
SCAN = "SELECT id, b, k, s FROM wide WHERE b >= 0"
AGGREGATE = "SELECT id, sum(b) AS b, max(k) AS k, max(s) AS s FROM wide GROUP BY id"
"""As many rows, but through Spark: what no scan of ours answers."""
SHORT = {"`SELECT 1`": "SELECT 1", "`SHOW TABLES`": "SHOW TABLES"}


def measure(run: Run) -> list[Table]:
    """5 million rows of four columns; statements a second."""
    count = run.size(5_000_000, 50_000)
    spark = run.plain_spark()
    with run.server(spark=True) as server:
        server.sql("CREATE TABLE wide (id BIGINT, b DOUBLE, k BIGINT, s STRING) WITH ('bucket' = '-1')")
        server.sql(f"INSERT INTO wide SELECT id, rand(7), id * 7, concat('user-', id % 100000) FROM range({count})")
        location = str(server.warehouse / "default.db" / "wide" / "bucket-0")
        spark.read.parquet(location).createOrReplaceTempView("wide")
        shapes = {"scan, filter, project": SCAN, "aggregate": AGGREGATE}
        tables = [_results(run, server, spark, count, query, what) for what, query in shapes.items()]
        return [*tables, _statements(run, server)]


def _results(run: Run, server: BenchServer, spark: SparkSession, count: int, query: str, what: str) -> Table:
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    with _connect(server) as connection:
        works: dict[str, Callable[[], pd.DataFrame]] = {
            "Spark's `toPandas` with Arrow": lambda: spark.sql(query).toPandas(),
            "Arrow Flight SQL": lambda: _flight(connection, query),
            "HTTP, Arrow": lambda: _arrow(server, query),
            "HTTP, CSV": lambda: pd.read_csv(io.BytesIO(_fetch(server, query, "text/csv"))),
            "HTTP, NDJSON": lambda: pd.read_json(io.BytesIO(_fetch(server, query, "application/x-ndjson")), lines=True),
            "HTTP, JSON": lambda: _json(server, query),
        }
        for name, work in works.items():
            found = work()
            assert len(found) == count, f"{name}: {len(found)} rows of {count}"
        megabytes = _flight_table(connection, query).nbytes / 1e6
        taken = in_turns(works, ROUNDS, most_seconds=60 * run.seconds)
    own = taken["Spark's `toPandas` with Arrow"]
    goals = {"Arrow Flight SQL": "≥ 2 ×", "HTTP, Arrow": "≥ 2 ×"}
    rows = [
        (name, f"{seconds:.2f} s", f"{megabytes / seconds:.0f} MB/s of Arrow; {own / seconds:.2f} × Spark's speed", goals.get(name, ""))
        for name, seconds in taken.items()
    ]
    return Table(head=("into pandas by", "measured", "beside", "goal"), rows=rows, note=f"{what.capitalize()}: {count:,} rows.")


def _statements(run: Run, server: BenchServer) -> Table:
    rows = []
    for shown, text in SHORT.items():
        for clients in (1, CLIENTS):
            http = _rate(run, clients, lambda: httpx.Client(base_url=server.url, timeout=60), partial(_over_http, server, text))
            flight = _rate(run, clients, lambda: _connect(server), partial(_over_flight, text))
            name = f"{shown}, {clients} client{'s' if clients > 1 else ''}"
            rows.append((name, f"{http:.0f} statements/s", f"{flight:.0f} statements/s", ""))
    return Table(head=("work", "HTTP, JSON", "Arrow Flight SQL", "goal"), rows=rows)


def _rate(run: Run, clients: int, connect: Callable[[], Any], ask: Callable[[Any], object]) -> float:
    """Statements a second of so many clients at once."""
    done = [0] * clients
    duration = run.seconds / 2

    def work(number: int) -> None:
        with connect() as connection:
            ask(connection)
            until = time.monotonic() + duration
            while time.monotonic() < until:
                ask(connection)
                done[number] += 1

    at_once(work, clients)
    return sum(done) / duration


def _connect(server: BenchServer) -> Connection:
    import adbc_driver_flightsql.dbapi as dbapi

    return dbapi.connect(server.flight_url, autocommit=True)


def _flight_table(connection: Connection, query: str) -> pa.Table:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetch_arrow_table()


def _over_http(server: BenchServer, text: str, client: httpx.Client) -> object:
    return server.sql(text, client)


def _over_flight(text: str, connection: Connection) -> object:
    return _flight_table(connection, text)


def _flight(connection: Connection, query: str) -> pd.DataFrame:
    frame: pd.DataFrame = _flight_table(connection, query).to_pandas()
    return frame


def _fetch(server: BenchServer, query: str, accept: str) -> bytes:
    answer = server.client.post("/sql", content=query.encode(), headers={"Accept": accept})
    answer.raise_for_status()
    return answer.content


def _arrow(server: BenchServer, query: str) -> pd.DataFrame:
    frame: pd.DataFrame = pa.ipc.open_stream(_fetch(server, query, "application/vnd.apache.arrow.stream")).read_all().to_pandas()
    return frame


def _json(server: BenchServer, query: str) -> pd.DataFrame:
    import orjson

    answer = orjson.loads(_fetch(server, query, "application/json"))
    return pd.DataFrame(answer["rows"], columns=[column["name"] for column in answer["columns"]])
