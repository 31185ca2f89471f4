"""What Spark is started with, and where it is: settings, its configuration, its addresses."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

from sql.spark.driver.class_archive import ClassArchive, spark_home


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How Spark is started; the server's options fill it."""

    master: str = "local[*]"
    driver_host: str | None = None
    """Where executors reach the driver; without it loopback for a master on this machine, else Spark's own choice."""
    driver_memory: str = "2g"
    directory: Path | None = None
    """Where Spark puts what it needs for a while; among the machine's temporary files without it."""
    log: Path | None = None
    """Where Spark's own words go; our standard error without it."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark."""
    archive: str | None = None
    """What executors without this process's environment unpack (`sql/spark/driver/archive.py`): a path here or a URI."""
    standstill: float = 180.0
    """For how many seconds the driver's JVM may answer nothing; then it is killed, and Spark started anew."""
    when_needed: bool = False
    """Whether it starts with the first statement that needs it, and not with the server."""
    classes: ClassArchive | None = None
    """The classes that the JVM finds read and checked, or that one which has nothing to do keeps for the next."""


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
    # It passes over stripes with -0.0 where 0.0 is asked for, and fails on a list of DOUBLE with NULL. The server chooses files by itself.
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # A listing job for named files costs 10 s where the driver needs 0.8 s (`architecture.md`, Scans).
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Each read names its files and lists them once; Spark would keep what it found for nobody, up to 250 MB of the heap.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.parquet.summary.metadata.level": "NONE",
    # A stream's checkpoint on this machine, without a checksum file beside each of its own, made by one more `chmod` process.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # What a driver collects lies in the one heap that all statements share.
    "spark.driver.maxResultSize": "512m",
    # What a page of Spark's, which nobody sees here, would show of a thousand statements, with the texts of their plans.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.sql.maxPlanStringLength": "100000",
    # Each task of an ORDER BY … LIMIT has twice as many places at once; beyond this it sorts.
    "spark.sql.execution.topKSortFallbackThreshold": "100000",
    # Files of a shuffle go with their statement; otherwise they lie until the heap is collected, and fill the disk meanwhile.
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    "spark.task.reaper.enabled": "true",
    # An executor on another machine whose task does not stop ends, and with it the task; what else ran there is run again by Spark.
    # One in the driver's own JVM only says so: there `gateway/execution/canceller.py` starts Spark anew.
    "spark.task.reaper.killTimeout": "60s",
    "spark.python.worker.reuse": "true",
    # A busy machine takes its time to start a Python process; 15 s, Spark's own, were not enough beside another JVM's start.
    "spark.python.authenticate.socketTimeout": "60s",
    # ORC's TIMESTAMP is read as a clock time of the JVM's zone.
    "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
}

TUNABLE = frozenset(
    {
        "spark.ui.enabled", "spark.log.level", "spark.sql.sources.parallelPartitionDiscovery.threshold",
        "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.driver.maxResultSize", "spark.task.reaper.killTimeout",
        "spark.python.worker.reuse", "spark.python.authenticate.socketTimeout", "spark.sql.shuffle.partitions",
        "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions",
    }
)  # fmt: skip
"""Of what we set, the settings that may be set otherwise; options of a JVM are added to ours."""
DECLARED = {
    "spark.master": "SLUICE_SPARK_MASTER", "spark.jars": "SLUICE_SPARK_JARS", "spark.jars.packages": "SLUICE_SPARK_PACKAGES",
    "spark.driver.host": "SLUICE_SPARK_DRIVER_HOST", "spark.driver.memory": "SLUICE_SPARK_DRIVER_MEMORY",
    "spark.archives": "SLUICE_SPARK_ARCHIVE",
}  # fmt: skip
"""Settings of Spark that have a variable of their own."""
OURS = frozenset(
    {
        "spark.app.name", "spark.scheduler.allocation.file", "spark.sql.warehouse.dir", "spark.local.dir", "spark.submit.pyFiles",
        "spark.pyspark.python", "spark.pyspark.driver.python", "spark.executorEnv.PYTHONPATH", "spark.sql.extensions",
    }
)  # fmt: skip
"""Settings that the server needs for itself."""
SHARED_MASTER = {
    # One executor a core, so that any worker can take one; who stops working gives all but one back after a minute.
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.executor.cores": "1",
}
"""What lets several servers share a standalone master, which gives all its cores to whoever comes first."""
OUT_OF_MEMORY = "out-of-memory"
"""A file among Spark's temporary ones that its JVM makes when it runs out of memory."""
UNPACKED = "sluice_environment"
"""The directory an executor unpacks the archive to, in the one it runs in."""
_LINE = re.compile(r"(?P<key>[^\s=:#!][^\s=:]*)\s*[\s=:]\s*(?P<value>.*)")


def read_conf(text: str) -> dict[str, str]:
    """Settings of a file as Spark's `spark-defaults.conf`; raises `ValueError` naming the line of one that cannot be.

    Java's escapes are not read: a value ends with its line.
    """
    settings: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line[0] in "#!":
            continue
        match = _LINE.fullmatch(line)
        if match is None or not match["key"].startswith("spark.") or line.endswith("\\"):
            raise ValueError(f"line {number} is not of the form `spark.setting value`")
        key = match["key"]
        if key in DECLARED:
            raise ValueError(f"line {number} sets {key}, which {DECLARED[key]} sets")
        if key in OURS or (key in CONF and key not in TUNABLE):
            raise ValueError(f"line {number} sets {key}, which the server sets by itself: the meaning of statements depends on it")
        if key in settings:
            raise ValueError(f"line {number} sets {key} once more")
        settings[key] = match["value"].strip()
    return settings


def configuration(settings: SparkSettings, *, scratch: Path, pools: Path, ours: Path, java_options: Sequence[str] = ()) -> dict[str, str]:
    """All of Spark's settings: ``scratch`` is for what it forgets, ``pools`` names its shares, ``ours`` holds this process's packages.

    ``java_options`` are the driver's beside those that are set.
    """
    conf = {
        **CONF,
        **(SHARED_MASTER if settings.master.startswith("spark://") else {}),
        "spark.app.name": "sluice",
        "spark.master": settings.master,
        # A JVM whose heap is full answers nobody, and takes a minute to end: `sql/spark/driver/watch.py` sees by the file that it is so.
        "spark.driver.extraJavaOptions": f'-Duser.timezone=UTC "-Djava.io.tmpdir={scratch}" '
        + " ".join(map(_java_option, [f"-XX:OnOutOfMemoryError=: > {quote(str(scratch / OUT_OF_MEMORY))}", *java_options])),
        "spark.scheduler.allocation.file": pools.as_uri(),
        "spark.sql.shuffle.partitions": str(max(4, 2 * (os.cpu_count() or 2))),
        "spark.sql.warehouse.dir": str(scratch),
        "spark.local.dir": str(scratch),
        "spark.driver.memory": settings.driver_memory,
        **driver_address(settings),
    }
    if settings.archive is None:
        conf["spark.executorEnv.PYTHONPATH"] = os.pathsep.join([str(ours), *filter(None, [os.environ.get("PYTHONPATH")])])
    else:
        conf |= {"spark.archives": f"{settings.archive}#{UNPACKED}", "spark.executorEnv.PYTHONPATH": UNPACKED}
    for key, value in settings.conf.items():
        conf[key] = f"{conf[key]} {value}" if key.endswith(".extraJavaOptions") and key in conf else value
    return conf


def _java_option(text: str) -> str:
    """An option of a JVM as Spark reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def python_of(settings: SparkSettings) -> str:
    """The Python that executors start: this one, or where they bring their own that of the same minor version in their PATH."""
    return sys.executable if settings.archive is None else f"python{sys.version_info.major}.{sys.version_info.minor}"


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
    (jar,) = (spark_home() / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")
