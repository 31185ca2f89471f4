"""What the JVMs of a run start with: most of them live for seconds, and have loaded the same classes many times before."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fix_data import CACHE
from tests.java import kept, spark_jars

_KEPT_SECONDS = 2 * 86_400.0
# The compiler that takes its time, and a collector with threads of its own, never pay.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_options() -> str:
    """Options of a JVM with Spark's class path; one that finds no archive, or another Java's, loads its classes as ever."""
    return f"{OPTIONS} -Xlog:cds=off -Xlog:cds+dynamic=off -XX:SharedArchiveFile={_archive()}"


def make_archive() -> None:
    """Keep the classes that a first query loads, read and checked; they are more than half of what a start of Spark costs."""
    with contextlib.suppress(subprocess.CalledProcessError, OSError):  # without it a run is slow, not wrong
        kept(_archive(), _made)


def _archive() -> Path:
    jars, java = spark_jars().resolve(), os.path.realpath(shutil.which("java") or "java")
    key = hashlib.sha256(f"{jars} {jars.stat().st_mtime_ns} {java}".encode()).hexdigest()[:12]
    return CACHE / f"spark-{key}.jsa"


def _made(directory: Path) -> Path:
    for old in CACHE.glob("spark-*.jsa"):  # of an environment that was made anew since
        if time.time() - old.stat().st_mtime > _KEPT_SECONDS:
            old.unlink(missing_ok=True)
    directory.mkdir(parents=True)
    archive = directory / "spark.jsa"
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": f"{OPTIONS} -XX:ArchiveClassesAtExit={archive}"}
    python = Path(sys.prefix).resolve() / "bin" / "python"  # as the servers' command has it, whose class path the archive must have
    command = [str(python), "-W", "ignore", "-m", "tests.brief_jvm", str(directory)]
    subprocess.run(command, cwd=Path(__file__).parents[1], env=environment, capture_output=True, check=True)
    return archive


def _run(directory: Path) -> None:
    """Do a little of everything, and wait for the JVM, which writes the archive as it ends."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.host": "127.0.0.1"}
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    launch: Callable[..., Any] = launch_gateway
    gateway = launch(conf)
    session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    session.range(1000).selectExpr("id", "id % 7 AS k", "CAST(id AS STRING) AS s").write.parquet(str(directory / "table"))
    session.read.parquet(str(directory / "table")).createOrReplaceTempView("t")
    for query in (
        "SELECT k, count(*), sum(id), max(s) FROM t WHERE id > 3 GROUP BY k ORDER BY k",
        "SELECT a.k, b.s FROM t a JOIN t b USING (id) WHERE a.k IN (SELECT k FROM t WHERE id < 9) LIMIT 10",
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM t",
    ):
        session.sql(query).toArrow()
    session.stop()
    process = gateway.proc
    process.stdin.close()
    process.wait(300)


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
