"""What the JVMs of a run start with: most of them live for seconds, and have loaded the same classes many times before."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import marshal
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

from sql.spark.driver.class_archive import ClassArchive, spark_home
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


def compile_pyspark(home: Path | None = None) -> None:
    """Add compiled modules to the file that Spark's Python processes import pyspark from, behind the sources that it has.

    Python compiles what lies in such a file each time anew: 0.4 s of processor time for each process; a stream starts six and more.
    A process that runs has read where in the file each module begins: all that was there stays where it is, and the file is another
    one only once it is whole, made by one run of those that use the same environment. What keeps it from being written leaves it as it was.
    """
    path = (home or spark_home()) / "python" / "lib" / "pyspark.zip"
    with contextlib.suppress(OSError, zipfile.BadZipFile), path.open("rb") as before:
        fcntl.flock(before, fcntl.LOCK_EX)
        with zipfile.ZipFile(path) as sources:  # by its name: another run may have been first
            if any(name.endswith(".pyc") for name in sources.namelist()):
                return
            compiled = {
                f"{name}c": _compiled(sources.read(name), f"{path}/{name}")
                for name in sources.namelist()
                if name.endswith(".py") and "/tests/" not in name
            }
        made = path.with_name(f"{path.name}.made")  # where a run was killed here, the next one begins it anew
        try:
            shutil.copy(path, made)
            with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as both:
                for name, code in compiled.items():
                    both.writestr(name, code)
            made.replace(path)
        finally:
            made.unlink(missing_ok=True)


def _compiled(source: bytes, name: str) -> bytes:
    """A module's file of compiled code that goes by no time of its source (PEP 552)."""
    with warnings.catch_warnings(action="ignore"):
        code = compile(source, name, "exec", dont_inherit=True)
    unchecked = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + marshal.dumps(code)


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
