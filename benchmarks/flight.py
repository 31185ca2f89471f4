"""Results of every protocol into pandas beside Spark's own, and short statements by one and by many clients."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson
import pandas as pd
import pyarrow as pa

from benchmarks.harness.endpoints import Client, FlightClient, FlinkClient, HttpClient
from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer
from benchmarks.harness.timing import at_once, in_turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 3
CLIENTS = 32
SCAN = "SELECT id, b, k, s FROM wide WHERE b >= 0"
AGGREGATE = "SELECT id, sum(b) AS b, max(k) AS k, max(s) AS s FROM wide GROUP BY id"
"""As many rows, but through Spark: what no scan of ours answers."""
SHORT = {f"`{text}`": text for text in ("SELECT 1", "SELECT 1 + 1", "SHOW TABLES")}
PROTOCOLS: dict[str, Callable[[BenchServer], Client]] = {
    "`POST /sql`, JSON": lambda server: HttpClient(server.url),
    "Flink's protocol": lambda server: FlinkClient(server.url),
    "Arrow Flight SQL": lambda server: FlightClient(server.flight_url),
}
_ARROW = "application/vnd.apache.arrow.stream"
_SPARK = "Spark's `toPandas` with Arrow"


def measure(run: Run) -> list[Table]:
    """5 million rows of four columns; statements a second."""
    count = run.size(5_000_000, 50_000)
    spark = run.plain_spark()
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    with run.server(spark=True) as server:
        server.sql("CREATE TABLE wide (id BIGINT, b DOUBLE, k BIGINT, s STRING) WITH ('bucket' = '-1')")
        server.sql(f"INSERT INTO wide SELECT id, rand(7), id * 7, concat('user-', id % 100000) FROM range({count})")
        location = str(server.warehouse / "default.db" / "wide" / "bucket-0")
        spark.read.parquet(location).createOrReplaceTempView("wide")
        scan = _results(run, server, spark, count, SCAN, "scan, filter, project", arrow_goal="≥ 500 MB/s")
        aggregate = _results(run, server, spark, count, AGGREGATE, "aggregate", arrow_goal="")
        return [scan, aggregate, _statements(run, server)]


def _results(run: Run, server: BenchServer, spark: SparkSession, count: int, query: str, what: str, *, arrow_goal: str) -> Table:
    with FlightClient(server.flight_url) as flight, HttpClient(server.url) as http:
        works: dict[str, Callable[[], pd.DataFrame | pa.Table]] = {
            _SPARK: lambda: spark.sql(query).toPandas(),
            "Arrow Flight SQL": lambda: flight.ask(query).to_pandas(),
            "HTTP, Arrow": lambda: _arrow(http, query).to_pandas(),
            "HTTP, CSV": lambda: pd.read_csv(io.BytesIO(http.fetch(query, "text/csv"))),
            "HTTP, NDJSON": lambda: pd.read_json(io.BytesIO(http.fetch(query, "application/x-ndjson")), lines=True),
            "HTTP, JSON": lambda: _json(http, query),
            "Arrow Flight SQL, left as Arrow": lambda: flight.ask(query),
            "HTTP, Arrow, left as Arrow": lambda: _arrow(http, query),
        }
        for name, work in works.items():
            table = work()
            assert len(table) == count, f"{name}: {len(table)} rows of {count}"
        megabytes = flight.ask(query).nbytes / 1e6
        taken = in_turns(works, ROUNDS, most_seconds=60 * run.seconds)
    own = taken[_SPARK]
    goals = dict.fromkeys(("Arrow Flight SQL", "HTTP, Arrow"), "≥ 2 ×")
    goals |= dict.fromkeys(("Arrow Flight SQL, left as Arrow", "HTTP, Arrow, left as Arrow"), arrow_goal)
    rows = [
        (name, f"{seconds:.2f} s", f"{megabytes / seconds:.0f} MB/s of Arrow; {own / seconds:.2f} × Spark's speed", goals.get(name, ""))
        for name, seconds in taken.items()
    ]
    note = (
        f"{what.capitalize()}: {count:,} rows, {megabytes:.0f} MB of Arrow. What is left as Arrow spares the making of pandas' own objects."
    )
    return Table(head=("into pandas by", "measured", "beside", "goal"), rows=rows, note=note)


def _statements(run: Run, server: BenchServer) -> Table:
    rows = [
        (
            f"{label}, {clients} client{'s' if clients > 1 else ''}",
            *(f"{_rate(run, server, connect, text, clients):.0f}" for connect in PROTOCOLS.values()),
        )
        for label, text in SHORT.items()
        for clients in (1, CLIENTS)
    ]
    note = "Statements a second, each with all its rows read. ADBC prepares every statement before it runs it."
    return Table(head=("work", *PROTOCOLS), rows=rows, note=note)


def _rate(run: Run, server: BenchServer, connect: Callable[[BenchServer], Client], text: str, clients: int) -> float:
    """Statements a second of so many clients at once."""
    done = [0] * clients
    duration = run.seconds / 2

    def work(number: int) -> None:
        with connect(server) as client:
            client.ask(text)
            until = time.monotonic() + duration
            while time.monotonic() < until:
                client.ask(text)
                done[number] += 1

    at_once(work, clients)
    return sum(done) / duration


def _arrow(client: HttpClient, query: str) -> pa.Table:
    return pa.ipc.open_stream(client.fetch(query, _ARROW)).read_all()


def _json(client: HttpClient, query: str) -> pd.DataFrame:
    answer = orjson.loads(client.fetch(query, "application/json"))
    return pd.DataFrame(answer["rows"], columns=[column["name"] for column in answer["columns"]])
