"""Rows a second of a table → table job, beside plain Spark streaming the same files to Parquet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import httpx

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Timed = Callable[[int], float]
ROWS = 10_000_000
ROUNDS = 3
COLUMNS = "id BIGINT, kind INT, word STRING, x DOUBLE"


def measure(run: Run) -> list[Table]:
    """In turns: a job over all that is in a table, and a plain stream over the table's files, each to its end."""
    rows = run.size(ROWS, 200_000)
    with run.server(spark=True) as server:
        server.sql(f"CREATE TABLE src ({COLUMNS}) WITH ('bucket' = '-1', 'target-file-size' = '64 mb')")
        server.sql(f"{generator(rows)}; INSERT INTO src SELECT * FROM made")
        files = run.scratch / "plain-source"
        _copy(server, files)
        return [
            in_turns(
                ("table → table job", "plain Spark, Parquet → Parquet"),
                rows,
                rounds=run.size(ROUNDS, 1),
                ours=lambda number: job(server, f"dst{number}", "src", rows),
                theirs=lambda number: _plain(run, files, run.scratch / f"plain{number}", rows),
            )
        ]


def generator(rows: int) -> str:
    """The statement for a table ``made`` of so many rows that nobody has to keep."""
    return f"CREATE TABLE made ({COLUMNS}) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}', 'fields.word.length' = '12')"


def in_turns(head: tuple[str, str], rows: int, *, rounds: int, ours: Timed, theirs: Timed) -> Table:
    """Rows a second of both, each given the number of its round and telling its seconds."""
    seconds = [(ours(number), theirs(number)) for number in range(rounds)]
    mine, plain = (rows / median(column) for column in zip(*seconds, strict=True))
    return Table(
        head=(*head, "ratio"),
        rows=[(f"{mine:,.0f} rows/s", f"{plain:,.0f} rows/s", f"{mine / plain:.2f}")],
        note=f"{rows:,} rows of four columns, from the query's start to its end; medians of {rounds} rounds in turns.",
    )


def _copy(server: BenchServer, to: Path) -> None:
    """The source table's files where plain Spark finds nothing else."""
    to.mkdir()
    table = Path(server.warehouse) / "default.db" / "src"
    for file in table.glob("bucket-*/*.parquet"):
        os.link(file, to / file.name)


def job(server: BenchServer, target: str, source: str, rows: int) -> float:
    """Seconds of a job into a new table, from its INSERT to the last row committed."""
    server.sql(f"CREATE TABLE {target} ({COLUMNS}) WITH ('bucket' = '-1')")
    settings = {"execution.runtime-mode": "streaming", "execution.checkpointing.interval": "100 ms"}
    began = time.perf_counter()
    body = {"statement": f"INSERT INTO {target} SELECT * FROM {source}", "settings": settings}
    answer = httpx.post(f"{server.url}/sql", json=body, headers={"Accept": "application/json"}, timeout=300)
    answer.raise_for_status()
    job_id = answer.json()["rows"][0][0]
    while httpx.get(f"{server.url}/jobs/{job_id}", timeout=60).json()["rows"] < rows:
        if time.perf_counter() - began > 600:
            raise TimeoutError(f"job {job_id} is not through")
        time.sleep(0.05)
    taken = time.perf_counter() - began
    server.sql(f"STOP JOB '{job_id}'")
    return taken


def _plain(run: Run, source: Path, target: Path, rows: int) -> float:
    spark = run.plain_spark()
    schema = spark.read.parquet(str(source)).schema
    return to_parquet(lambda: spark.readStream.schema(schema).parquet(str(source)), target, rows)


def to_parquet(stream: Callable[[], DataFrame], target: Path, rows: int) -> float:
    """Seconds of a plain stream over all that is there."""
    began = time.perf_counter()
    frame = stream()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{target}-checkpoint").trigger(availableNow=True)
    writer.start(str(target)).awaitTermination()
    taken = time.perf_counter() - began
    row_count = frame.sparkSession.read.parquet(str(target)).count()
    assert row_count == rows, row_count
    return taken
