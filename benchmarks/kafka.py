"""Rows a second of a Kafka → table job, beside plain Spark streaming the same topic to Parquet."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run, spark_jars
from benchmarks.harness.server import BenchServer
from benchmarks.jobs import COLUMNS, generator, in_turns, job, to_parquet
from tests.fix_kafka import Broker, broker_jars

ROWS = 3_000_000
ROUNDS = 3
PARTITIONS = 4


def measure(run: Run) -> list[Table]:
    """In turns, each from the topic's beginning to its end: a job that reads JSON, and a plain stream that parses the same."""
    rows = run.size(ROWS, 50_000)
    broker = Broker(run.scratch / "kafka", broker_jars()).start()
    try:
        broker.create("events", PARTITIONS)
        with run.server(spark=True, SLUICE_SPARK_JARS=spark_jars()) as server:
            _fill(server, broker, rows)
            return [
                in_turns(
                    ("Kafka → table job", "plain Spark, Kafka → Parquet"),
                    rows,
                    rounds=run.size(ROUNDS, 1),
                    ours=lambda number: job(server, f"dst{number}", "events", rows),
                    theirs=lambda number: _plain(run, broker, run.scratch / f"kafka{number}", rows),
                )
            ]
    finally:
        broker.kill()


def _fill(server: BenchServer, broker: Broker, rows: int) -> None:
    """Rows of our own generator into the topic as JSON, by our own sink."""
    server.sql(
        f"CREATE TABLE events ({COLUMNS}) WITH ('connector' = 'kafka', 'topic' = 'events', 'properties.bootstrap.servers' = "
        f"'{broker.address}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json'); {generator(rows)}; "
        "INSERT INTO events SELECT * FROM made"
    )


def _plain(run: Run, broker: Broker, target: Path, rows: int) -> float:
    from pyspark.sql import functions as F

    source = run.plain_spark().readStream.format("kafka").option("kafka.bootstrap.servers", broker.address).option("subscribe", "events")
    row = F.from_json(F.col("value").cast("string"), COLUMNS).alias("row")
    return to_parquet(lambda: source.option("startingOffsets", "earliest").load().select(row).select("row.*"), target, rows)
