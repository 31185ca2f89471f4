"""Rows a second of a table → table job, beside plain Spark streaming the same files to Parquet."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from benchmarks.page import Table
from benchmarks.run import Run
from benchmarks.server import BenchServer

ROWS = 10_000_000
ROUNDS = 3
_SOURCE = "(id BIGINT, kind INT, word STRING, x DOUBLE)"


def measure(run: Run) -> list[Table]:
    """In turns: a job over all that is in a table, and a plain stream over the table's files, each to its end."""
    rows = run.size(ROWS, 200_000)
    ours, theirs = [], []
    with run.server(spark=True) as server:
        server.sql(f"CREATE TABLE src {_SOURCE} WITH ('bucket' = '-1', 'target-file-size' = '64 mb')")
        server.sql(
            f"CREATE TABLE made {_SOURCE} WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}', 'fields.word.length' = '12'); "
            "INSERT INTO src SELECT * FROM made"
        )
        files = run.scratch / "plain-source"
        _copy(server, files)
        for number in range(run.size(ROUNDS, 1)):
            ours.append(rows / job(server, f"dst{number}", rows))
            theirs.append(rows / plain(run, files, run.scratch / f"plain{number}", rows))
    best, plain_best = max(ours), max(theirs)
    return [
        Table(
            head=("table → table job", "plain Spark, Parquet → Parquet", "ratio"),
            rows=[(f"{best:,.0f} rows/s", f"{plain_best:,.0f} rows/s", f"{best / plain_best:.2f}")],
            note=f"{rows:,} rows of four columns, from the query's start to its end; the best of {len(ours)} rounds in turns.",
        )
    ]


def _copy(server: BenchServer, to: Path) -> None:
    """The source table's files where plain Spark finds nothing else."""
    import os

    to.mkdir()
    table = Path(server.warehouse) / "default.db" / "src"
    for file in table.glob("bucket-*/*.parquet"):
        os.link(file, to / file.name)


def job(server: BenchServer, target: str, rows: int) -> float:
    """Seconds of a job from its INSERT to the last row committed."""
    server.sql(f"CREATE TABLE {target} {_SOURCE} WITH ('bucket' = '-1')")
    settings = {"execution.runtime-mode": "streaming", "execution.checkpointing.interval": "100 ms"}
    began = time.perf_counter()
    body = {"statement": f"INSERT INTO {target} SELECT * FROM src", "settings": settings}
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


def plain(run: Run, source: Path, target: Path, rows: int) -> float:
    """Seconds of a plain stream over all files that are there."""
    spark = run.plain_spark()
    schema = spark.read.parquet(str(source)).schema
    began = time.perf_counter()
    frame = spark.readStream.schema(schema).parquet(str(source))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{target}-checkpoint").trigger(availableNow=True)
    query = writer.start(str(target))
    query.awaitTermination()
    taken = time.perf_counter() - began
    found = spark.read.parquet(str(target)).count()
    assert found == rows, found
    return taken
