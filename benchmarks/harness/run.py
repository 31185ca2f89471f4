"""What every part is given: a place on disk, a server of its own, plain Spark, and how long it may take."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.server import ROOT, BenchServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRATCH = ROOT / ".cache" / "benchmarks"
"""Beside ``./data``, where servers keep theirs: file systems differ, and /tmp is often another one."""


class Run:
    """One call of ``python -m benchmarks``."""

    def __init__(self, scratch: Path, *, seconds: float, quick: bool) -> None:
        self.scratch = scratch
        self.seconds = seconds
        """For so long each loop goes on; one that waits for an end of its own (10,000 tables) stops at ten times that."""
        self.quick = quick
        """Whether sizes are a tenth or less: to see that a part runs, not for the page."""
        self._spark: SparkSession | None = None

    def size(self, full: int, quick: int) -> int:
        """A size of the work."""
        return quick if self.quick else full

    def patience(self) -> float:
        """The moment, on the monotonic clock, at which a loop with an end of its own is cut off."""
        return time.monotonic() + 10 * self.seconds

    @contextlib.contextmanager
    def server(self, *, spark: bool = False, **settings: str) -> Iterator[BenchServer]:
        """A fresh server on an empty warehouse; with ``spark``, once its Spark is warm. Settings are those of the environment."""
        directory = Path(tempfile.mkdtemp(prefix="server-", dir=self.scratch))
        server = BenchServer(directory, self.scratch, settings)
        try:
            if spark:
                server.wait_for_spark()
            yield server
        finally:
            server.stop()

    def plain_spark(self) -> SparkSession:
        """Spark as anybody would start it, with the meaning our sessions have; one for all parts."""
        if self._spark is None:
            self._spark = _plain_spark()
        return self._spark

    def close(self) -> None:
        """End plain Spark."""
        if self._spark is not None:
            self._spark.stop()


@contextlib.contextmanager
def running(*, seconds: float, quick: bool) -> Iterator[Run]:
    """A run, on a directory that goes away."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as made:
        run = Run(Path(made), seconds=seconds, quick=quick)
        try:
            yield run
        finally:
            run.close()


def spark_jars() -> str:
    """What Spark needs for Kafka, fetched where it is not there yet; nothing where it cannot be had."""
    return subprocess.run([ROOT / "scripts" / "kafka-jars"], stdout=subprocess.PIPE, text=True).stdout.strip()


def _plain_spark() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[*]").appName("plain")
    for key, value in {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.jars": spark_jars(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
        "spark.sql.shuffle.partitions": str(max(4, 2 * (os.cpu_count() or 2))),
    }.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session
