"""What the JVMs of a run start with: most of them live for seconds, and have loaded the same classes many times before."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sql.spark.driver.class_archive import ClassArchive
from sql.spark.driver.launch import Launcher
from sql.spark.session.settings import SparkSettings
from tests.fix_data import CACHE

_KEPT_SECONDS = 2 * 86_400.0
_OF_ENVIRONMENTS = "spark-classes-"
# The compiler that takes its time, and a collector with threads of its own, never pay. Without that compiler Java keeps 48 MB for code, a
# fifth of what it keeps otherwise: Spark compiles code for each query, and one that has answered many compiled what it had dropped again
# and again. And it collects all garbage whenever classes have grown a little, from 21 MB on, at each start and for each few queries.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"


def spark_options() -> str:
    """Options of a JVM with Spark's class path; one that finds no archive, or another Java's, loads its classes as ever."""
    return " ".join([OPTIONS, *kept_archive().options()])


def make_archive() -> None:
    """Keep the classes that a first query loads, read and checked; they are more than half of what a start of Spark costs."""
    if kept_archive().path() is not None:
        return
    for old in CACHE.glob(f"{_OF_ENVIRONMENTS}*"):  # of an environment that was made anew since
        if time.time() - old.stat().st_mtime > _KEPT_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": OPTIONS}
    with contextlib.suppress(subprocess.CalledProcessError, OSError):  # without it a run is slow, not wrong
        command = [sys.executable, "-W", "ignore", "-m", "tests.brief_jvm"]
        subprocess.run(command, cwd=Path(__file__).parents[1], env=environment, capture_output=True, check=True)


def kept_archive() -> ClassArchive:
    """That of this environment: its Spark lies elsewhere than another one's."""
    return ClassArchive(CACHE / f"{_OF_ENVIRONMENTS}{hashlib.sha256(sys.prefix.encode()).hexdigest()[:12]}")


def _make() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        launcher = Launcher(SparkSettings(), Path(scratch))
        launcher.set_environment()
        kept_archive().make(launcher.launch_apart)


if __name__ == "__main__":
    _make()
