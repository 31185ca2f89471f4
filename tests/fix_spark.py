"""Plain Spark, for comparison: one session a run, with the meaning our sessions have and nothing of our code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sql.spark.session.pool import SparkPool

MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.orc.filterPushdown": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A plain ``local[2]`` session; tests that use it are marked ``spark``."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master("local[2]").appName("sluice-tests")
    conf = MEANING | {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        # As our own: a checkpoint's files without one of checksums beside each, and without the `chmod` process that makes either private.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse")),
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def pool(spark: SparkSession) -> Iterator[SparkPool]:
    """Our own pool over the same context: a process has one, and whoever stopped it would stop it for all."""
    from sql.spark.session.pool import SparkPool
    from sql.spark.session.settings import SparkSettings

    class Shared(SparkPool):
        """Starts nothing anew: it would end the plain session, and with it all tests that come after."""

        def restart(self, reason: str) -> None:
            raise AssertionError(f"The tests' Spark was to be started anew: {reason}")

    made = Shared(SparkSettings(master="local[2]"))
    made.start_in_background()
    yield made
    made.stop()
