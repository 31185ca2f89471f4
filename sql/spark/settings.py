"""What Spark is started with, and where it is: settings, its configuration, its addresses."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How Spark is started; the server's options fill it."""

    master: str = "local[*]"
    driver_host: str | None = None
    """Where executors reach the driver; without it loopback for a master on this machine, else Spark's own choice."""
    driver_memory: str = "2g"
    max_sessions: int = 200
    directory: Path | None = None
    """Where Spark puts what it needs for a while; among the machine's temporary files without it."""
    log: Path | None = None
    """Where Spark's own words go; our standard error without it."""
    conf: Mapping[str, str] = field(default_factory=dict)


CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # A listing job for named files costs 10 s where the driver needs 0.8 s (`architecture.md`, Scans).
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.parquet.summary.metadata.level": "NONE",
    # A stream's checkpoint on this machine, without a checksum file beside each of its own, made by one more `chmod` process.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # What a driver collects lies in the one heap that all statements share.
    "spark.driver.maxResultSize": "512m",
    # Files of a shuffle go with their statement; otherwise they lie until the heap is collected, and fill the disk meanwhile.
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    "spark.task.reaper.enabled": "true",
    # An executor on another machine whose task does not stop ends, and with it the task; what else ran there is run again by Spark.
    # One in the driver's own JVM only says so: there `sql/canceller.py` starts Spark anew.
    "spark.task.reaper.killTimeout": "60s",
    "spark.python.worker.reuse": "true",
    # A busy machine takes its time to start a Python process; 15 s, Spark's own, were not enough beside another JVM's start.
    "spark.python.authenticate.socketTimeout": "60s",
    # ORC's TIMESTAMP is read as a clock time of the JVM's zone.
    "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
}


LOCAL_FILES = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
"""Options of a write: local files without checksums. Hadoop runs a `chmod` process for each file of data, of checksums, and each
directory, unless its native library is there, which Spark does not bring; a write of many small files does little else. It is no
setting of all Spark because some of Hadoop (`FileSystem.getLocal`) insists on the class with checksums."""


def is_here(master: str) -> bool:
    """Whether a Spark master is this process or reached over loopback, so that no other machine needs to reach the driver."""
    if not master.startswith("spark://"):
        return master.startswith("local")
    return all(_is_loopback(urlsplit(f"//{address}").hostname or "") for address in master.removeprefix("spark://").split(","))


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def driver_address(settings: SparkSettings) -> dict[str, str]:
    """Spark's settings of where the driver is: loopback unless its executors may be elsewhere."""
    if settings.driver_host is not None:
        return {"spark.driver.host": settings.driver_host, "spark.driver.bindAddress": "0.0.0.0"}
    return {"spark.driver.host": "127.0.0.1"} if is_here(settings.master) else {}


def hadoop_version() -> str:
    """The version of the Hadoop that comes with Spark, by its jar's name; what is fetched for Spark must be of the same."""
    spec = find_spec("pyspark")
    assert spec is not None
    places = spec.submodule_search_locations or []
    (jar,) = [found for place in places for found in (Path(place) / "jars").glob("hadoop-client-api-*.jar")]
    return jar.stem.removeprefix("hadoop-client-api-")
